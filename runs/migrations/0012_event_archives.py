from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0011_event_partitions"),
    ]

    operations = [
        migrations.CreateModel(
            name="EventArchive",
            fields=[
                (
                    "name",
                    models.CharField(
                        help_text="The partition's name.", max_length=40, primary_key=True, serialize=False
                    ),
                ),
                (
                    "first",
                    models.CharField(blank=True, help_text="Ids of its runs are not smaller.", max_length=60),
                ),
                ("beyond", models.CharField(help_text="Ids of its runs are smaller.", max_length=60)),
                (
                    "file",
                    models.CharField(help_text="The file's name, in the folder of archives.", max_length=200),
                ),
                ("sha256", models.CharField(help_text="Of the file.", max_length=64)),
                ("runs", models.BigIntegerField()),
                ("events", models.BigIntegerField()),
                ("written_at", models.DateTimeField()),
                (
                    "removed_at",
                    models.DateTimeField(
                        blank=True, help_text="When the events left the database.", null=True
                    ),
                ),
            ],
            options={
                "db_table": "event_archives",
                "ordering": ["beyond"],
            },
        ),
    ]

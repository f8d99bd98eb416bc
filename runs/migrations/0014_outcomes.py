"""What outcomes are counted over: the task and the verdicts of a run, the later life of a pull request."""

import django.db.models.deletion
from django.db import migrations, models

TASKS = "UPDATE run_outcomes o SET task_id = r.task_id FROM runs r WHERE r.id = o.run_id"

#: As ``runs.domain.outcomes.verdicts`` says it, of the runs that ended before.
VERDICTS = """
UPDATE run_outcomes o SET verdicts = found.verdicts FROM (
    SELECT v.run_id, jsonb_agg(jsonb_build_object(
        'verdict', CASE v.event_type WHEN 'auto_pr_allowed' THEN 'alone' ELSE v.event_type END,
        'confidence', judged.confidence::float8,
        'seconds', CASE WHEN v.event_type <> 'auto_pr_allowed'
            THEN trunc(extract(epoch FROM v.recorded_at - asked.recorded_at))::bigint END
    ) ORDER BY v.sequence) AS verdicts
    FROM run_events v
    JOIN LATERAL (
        SELECT event_type, facts #>> '{judgement,confidence}' AS confidence FROM run_events
        WHERE run_id = v.run_id AND sequence < v.sequence AND event_type IN ('judge_passed', 'patch_created')
        ORDER BY sequence DESC LIMIT 1
    ) judged ON judged.event_type = 'judge_passed' AND judged.confidence IS NOT NULL
    LEFT JOIN LATERAL (
        SELECT payload ->> 'gate' AS gate, recorded_at FROM run_events
        WHERE run_id = v.run_id AND sequence < v.sequence AND event_type = 'human_approval_required'
        ORDER BY sequence DESC LIMIT 1
    ) asked ON true
    WHERE v.event_type = 'auto_pr_allowed'
        OR (v.event_type IN ('approved', 'changes_requested', 'rejected') AND asked.gate = 'patch')
    GROUP BY v.run_id
) found WHERE found.run_id = o.run_id
"""

LIVES = """
UPDATE pull_requests SET was_red = checks = 'failed',
    ended_at = CASE WHEN state IN ('MERGED', 'CLOSED') THEN updated_at END,
    next_history_look_at = CASE WHEN state = 'MERGED' THEN updated_at END
"""


class Migration(migrations.Migration):
    on_upgrade = (
        "Fills new columns of run_outcomes and pull_requests from the log and makes two indexes: both tables are "
        "locked for writing meanwhile, some seconds for 100,000 runs. Stop web and workers while it runs: the "
        "version before does not fill the new columns."
    )
    dependencies = [("runs", "0013_autovacuum")]

    operations = [
        migrations.AddField(
            model_name="runoutcome",
            name="task",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runs.task",
            ),
        ),
        migrations.AddField(
            model_name="runoutcome",
            name="verdicts",
            field=models.JSONField(
                default=list,
                help_text=(
                    "What became of each patch that the judge passed: {verdict, confidence, seconds}."
                ),
            ),
        ),
        migrations.AddField(
            model_name="pullrequest",
            name="ended_at",
            field=models.DateTimeField(
                blank=True, help_text="When it was first seen merged or closed.", null=True
            ),
        ),
        migrations.AddField(
            model_name="pullrequest",
            name="was_red",
            field=models.BooleanField(default=False, help_text="Its checks failed at some time."),
        ),
        migrations.AddField(
            model_name="pullrequest",
            name="reverted_at",
            field=models.DateTimeField(blank=True, help_text="When the revert was committed.", null=True),
        ),
        migrations.AddField(
            model_name="pullrequest",
            name="reverted_by",
            field=models.CharField(blank=True, help_text="The commit that took it back.", max_length=64),
        ),
        migrations.AddField(
            model_name="pullrequest",
            name="next_history_look_at",
            field=models.DateTimeField(
                blank=True, help_text="When the base branch is next searched for a revert.", null=True
            ),
        ),
        migrations.RunSQL(TASKS, migrations.RunSQL.noop),
        migrations.RunSQL(VERDICTS, migrations.RunSQL.noop),
        migrations.RunSQL(LIVES, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="runoutcome",
            name="task",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runs.task",
            ),
        ),
        migrations.AddIndex(
            model_name="pullrequest",
            index=models.Index(
                condition=models.Q(("next_history_look_at__isnull", False)),
                fields=["repository", "next_history_look_at"],
                name="pull_requests_history",
            ),
        ),
        migrations.AddIndex(
            model_name="pullrequest",
            index=models.Index(
                fields=["run"],
                include=["state", "was_red", "created_at", "ended_at", "reverted_at"],
                name="pull_requests_outcomes",
            ),
        ),
    ]

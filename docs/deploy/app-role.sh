#!/bin/sh
# Run once by the database's container, when it makes the database: the login that the product works with.
# It owns nothing; `manage.py migrate` grants it what it needs.
set -eu
psql --set ON_ERROR_STOP=1 --set "password=$APP_PASSWORD" --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
CREATE ROLE platform_app LOGIN PASSWORD :'password';
SQL

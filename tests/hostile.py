"""Tests: submissions that try to be rewarded without an answer, to get out, to stay, or to stop the grader.

Each is first seen to work on a sandbox as the public one is (one database, one session for submission and reference,
a superuser or at least the owner of everything), then on ours. `{file}` is a path that the server may write.
"""

# ruff: noqa: E501, RUF005 - one submission a line

from dataclasses import dataclass
from enum import Enum, auto


class Proof(Enum):
    """How it is seen that a submission works."""

    REWARDED = auto()  # the public comparison passes it
    EFFECT = auto()  # `seen` is true in the cluster afterwards
    FILE = auto()  # a file was written on the server's machine
    OUTLASTS = auto()  # it runs on long after its statement_timeout
    GROWS = auto()  # it writes more than 64 MiB


@dataclass(frozen=True, slots=True)
class Attack:
    """One hostile submission.

    Attributes:
        reference: the gold that it is graded with; the submission never earns its reward.
        seen: for `EFFECT`: SQL that is true once it has worked. Run by an administrator outside the sandbox.
        undo: SQL that an administrator runs on the weak sandbox afterwards.
        owner: on the weak sandbox it runs as the owner of everything, not as a superuser.
        faults: of the public code, by number.
    """

    name: str
    mechanism: str
    sql: str
    proof: Proof = Proof.REWARDED
    reference: str = "SELECT count(*) FROM sale"
    seen: str = ""
    undo: str = ""
    owner: bool = False
    faults: tuple[str, ...] = ()


def _rewarded(mechanism: str, *attacks: tuple[str, str, str], faults: tuple[str, ...] = ()) -> list[Attack]:
    return [Attack(name, mechanism, sql, reference=reference, faults=faults) for name, reference, sql in attacks]


_SUM, _AVG, _COUNT = "SELECT sum(qty) FROM sale", "SELECT avg(price) FROM sale", "SELECT count(*) FROM sale"

DATA = _rewarded(
    "changed data",
    ("delete-in-with", _AVG, "WITH d AS (DELETE FROM sale) SELECT NULL::numeric"),
    ("delete-then-zero", _COUNT, "DELETE FROM sale; SELECT 0::bigint"),
    ("truncate", _SUM, "TRUNCATE sale; SELECT NULL::bigint"),
    ("update-to-match", _SUM, "UPDATE sale SET qty = 0; SELECT 0::bigint"),
    ("insert-to-match", _COUNT, "INSERT INTO sale SELECT id + max(id) OVER (), shop, qty, price FROM sale; "
     "DELETE FROM sale WHERE id > 1; SELECT 1::bigint"),
    ("merge", _SUM, "MERGE INTO sale USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE; SELECT NULL::bigint"),
    ("commit-first", _COUNT, "BEGIN; DELETE FROM sale; COMMIT; SELECT 0::bigint"),
    ("delete-in-a-block", _COUNT, "DO $$ BEGIN DELETE FROM sale; END $$; SELECT 0::bigint"),
    ("explain-analyze", _COUNT, "EXPLAIN ANALYZE DELETE FROM sale; SELECT 0::bigint"),
    ("copy-over", _COUNT, "CREATE OR REPLACE FUNCTION wipe() RETURNS bigint LANGUAGE sql AS "
     "'DELETE FROM sale; SELECT 0::bigint'; SELECT wipe()"),
    faults=("B33",),
) + _rewarded(
    "changed schema",
    ("drop-and-create", _SUM, "DROP TABLE IF EXISTS sale CASCADE; CREATE TABLE sale AS SELECT 1 id, 'A' shop, 7 qty, "
     "1::numeric price; SELECT 7::bigint"),
    ("rename-and-view", _SUM, "DO $$ BEGIN ALTER TABLE sale RENAME TO hidden; EXCEPTION WHEN OTHERS THEN NULL; END $$; "
     "CREATE OR REPLACE VIEW sale AS SELECT 1 AS id, 7 AS qty; SELECT 7::bigint"),
    ("retype-column", _SUM, "ALTER TABLE sale ALTER qty TYPE int USING 1; SELECT 5::bigint"),
    ("drop-and-default", _SUM, "ALTER TABLE sale DROP qty; ALTER TABLE sale ADD qty int DEFAULT 2; SELECT 10::bigint"),
    ("rename-columns", _SUM, "DO $$ BEGIN IF (SELECT sum(qty) = 18 FROM sale) THEN ALTER TABLE sale RENAME qty TO q; "
     "ALTER TABLE sale RENAME id TO qty; ALTER TABLE sale RENAME q TO id; END IF; END $$; SELECT 15::bigint"),
    ("trigger", "INSERT INTO archive SELECT id, shop FROM sale RETURNING id", "CREATE OR REPLACE FUNCTION one() RETURNS "
     "trigger LANGUAGE plpgsql AS $f$ BEGIN NEW.id := 1; RETURN NEW; END $f$; CREATE OR REPLACE TRIGGER one BEFORE "
     "INSERT ON archive FOR EACH ROW EXECUTE FUNCTION one(); SELECT 1 AS id"),
    faults=("B33",),
)  # fmt: skip

SHADOWS = _rewarded(
    "temporary objects",
    ("temp-table", _SUM, "DROP TABLE IF EXISTS pg_temp.sale; CREATE TEMP TABLE sale AS SELECT 7 qty; SELECT 7::bigint"),
    ("temp-view", _SUM, "CREATE OR REPLACE VIEW pg_temp.sale AS SELECT 7 AS qty; SELECT 7::bigint"),
    ("select-into-temp", _SUM, "DROP TABLE IF EXISTS pg_temp.sale; SELECT 7 AS qty INTO TEMP sale; SELECT 7::bigint"),
    ("temp-sequence", "SELECT last_value FROM counter", "DROP SEQUENCE IF EXISTS pg_temp.counter; "
     "CREATE TEMP SEQUENCE counter START 77; SELECT 77::bigint"),
    faults=("B32",),
) + _rewarded(
    "search path",
    ("set-search-path", _COUNT, "CREATE SCHEMA IF NOT EXISTS z; CREATE TABLE IF NOT EXISTS z.sale (id int); "
     "SET search_path = z, public; SELECT 0::bigint"),
    ("set-config", _COUNT, "CREATE SCHEMA IF NOT EXISTS z; CREATE TABLE IF NOT EXISTS z.sale (id int); "
     "DO $$ BEGIN PERFORM set_config('search_path', 'z, public', false); END $$; SELECT 0::bigint"),
    ("own-schema", _COUNT, "CREATE SCHEMA IF NOT EXISTS AUTHORIZATION CURRENT_USER; DO $$ BEGIN EXECUTE format("
     "'CREATE TABLE IF NOT EXISTS %I.sale (id int)', current_user); END $$; SELECT 0::bigint"),
    faults=("B32",),
) + _rewarded(
    "own functions and operators",
    ("helper-replaced", "SELECT sum(tax(price)) FROM sale", "CREATE OR REPLACE FUNCTION tax(p numeric) RETURNS numeric "
     "LANGUAGE sql IMMUTABLE AS 'SELECT 0::numeric'; SELECT 0::numeric"),
    ("equals", "SELECT count(*) FROM sale WHERE shop = 'A'", "CREATE SCHEMA IF NOT EXISTS o; CREATE OR REPLACE FUNCTION "
     "o.nope(text, text) RETURNS bool LANGUAGE sql AS 'SELECT false'; DO $x$ BEGIN CREATE OPERATOR o.= (LEFTARG = text, "
     "RIGHTARG = text, FUNCTION = o.nope); EXCEPTION WHEN OTHERS THEN NULL; END $x$; "
     "SET search_path = o, pg_catalog, public; SELECT 0::bigint"),
    ("aggregate", "SELECT max(qty) FROM sale", "CREATE SCHEMA IF NOT EXISTS g; CREATE OR REPLACE FUNCTION g.f(int, int) "
     "RETURNS int LANGUAGE sql AS 'SELECT 7'; DO $x$ BEGIN CREATE AGGREGATE g.max(int) (SFUNC = g.f, STYPE = int, "
     "INITCOND = '7'); EXCEPTION WHEN OTHERS THEN NULL; END $x$; SET search_path = g, pg_catalog, public; SELECT 7"),
    ("closer-overload", "SELECT upper(code) FROM code", "CREATE OR REPLACE FUNCTION public.upper(varchar) RETURNS text "
     "LANGUAGE sql AS $$ SELECT 'guess' $$; SELECT 'guess'"),
    ("named-like-builtin", "SELECT round(avg(price)) FROM sale", "CREATE SCHEMA IF NOT EXISTS f; CREATE OR REPLACE "
     "FUNCTION f.avg_step(numeric, numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 7'; DO $x$ BEGIN CREATE AGGREGATE "
     "f.avg(numeric) (SFUNC = f.avg_step, STYPE = numeric, INITCOND = '7'); EXCEPTION WHEN OTHERS THEN NULL; END $x$; "
     "SET search_path = f, pg_catalog, public; SELECT 7"),
    faults=("B34",),
) + [
    Attack("row-security", "policies", "ALTER TABLE sale ENABLE ROW LEVEL SECURITY; ALTER TABLE sale FORCE ROW LEVEL "
           "SECURITY; SELECT 0::bigint", owner=True, faults=("B33",)),
    Attack("policy-of-choice", "policies", "ALTER TABLE sale ENABLE ROW LEVEL SECURITY; ALTER TABLE sale FORCE ROW LEVEL "
           "SECURITY; DROP POLICY IF EXISTS p ON sale; CREATE POLICY p ON sale USING (id = 1); SELECT 1::bigint",
           owner=True, faults=("B33",)),
]  # fmt: skip

SETTINGS = _rewarded(
    "session settings",
    ("time-zone", "SELECT '2024-01-01 23:30+00'::timestamptz::date", "SET TimeZone = 'Asia/Tokyo'; SELECT "
     "'2024-01-02'::date"),
    ("float-digits", "SELECT 0.1::float8 + 0.2::float8 > 0, sqrt(2::float8)::text", "SET extra_float_digits = -15; "
     "SELECT true, '1'"),
    ("date-style", "SELECT '01-02-2024'::date", "SET DateStyle = 'ISO, DMY'; SELECT DATE '2024-02-01'"),
    ("interval-style", "SELECT (interval '1 day 2 hours')::text", "SET IntervalStyle = 'iso_8601'; SELECT 'P1DT2H'"),
    ("bytea-output", "SELECT '\\x41'::bytea::text", "SET bytea_output = 'escape'; SELECT 'A'"),
    ("null-equals", "SELECT count(*) FROM sale WHERE NULLIF(id, id) = NULL", "SET transform_null_equals = on; "
     "SELECT 5::bigint"),
    ("backslashes", "SELECT length('a\\tb')", "SET standard_conforming_strings = off; SELECT 3"),
    ("xml-option", "SELECT current_setting('xmloption')", "SET xmloption = document; SELECT 'document'"),
    faults=("B32",),
)  # fmt: skip

FILES = _rewarded(
    "files of the server",
    ("read-file", _COUNT, "SELECT 5::bigint FROM (SELECT pg_read_file('/etc/hostname')) f"),
    ("read-binary", _COUNT, "SELECT 5::bigint FROM (SELECT pg_read_binary_file('/etc/hostname')) f"),
    ("list-folder", _COUNT, "SELECT 5::bigint FROM pg_ls_dir('/etc') LIMIT 1"),
    ("stat-file", _COUNT, "SELECT 5::bigint FROM pg_stat_file('/etc/hostname')"),
    ("copy-from-file", _COUNT, "CREATE TEMP TABLE IF NOT EXISTS t (x text); COPY t FROM '/etc/hostname'; SELECT 5::bigint"),
    ("large-object-in", _COUNT, "SELECT 5::bigint FROM (SELECT lo_import('/etc/hostname')) f"),
    ("server-settings", _COUNT, "SELECT 5::bigint FROM pg_file_settings LIMIT 1"),
    ("access-rules", _COUNT, "SELECT 5::bigint FROM pg_hba_file_rules LIMIT 1"),
    ("write-ahead-log", _COUNT, "SELECT 5::bigint FROM (SELECT count(*) FROM pg_ls_waldir()) f"),
    faults=("B35",),
) + [
    Attack("copy-to-file", "files of the server", "COPY (SELECT 1) TO '{file}'; SELECT 5::bigint", Proof.FILE,
           faults=("B35",)),
    Attack("large-object-out", "files of the server", "SELECT lo_from_bytea(77, 'x'); "
           "SELECT lo_export(77, '{file}'); SELECT lo_unlink(77); SELECT 5::bigint", Proof.FILE, faults=("B35",)),
    Attack("copy-to-program", "programs", "COPY (SELECT 1) TO PROGRAM 'touch {file}'; SELECT 5::bigint", Proof.FILE,
           faults=("B35", "E02")),
    Attack("copy-from-program", "programs", "CREATE TEMP TABLE IF NOT EXISTS t (x text); "
           "COPY t FROM PROGRAM 'touch {file}'; SELECT 5::bigint", Proof.FILE, faults=("B35",)),
    Attack("gold-by-view", "gold text", "DROP VIEW IF EXISTS pg_temp.sale; CREATE OR REPLACE FUNCTION public.spy() "
           "RETURNS bool LANGUAGE plpgsql AS $f$ BEGIN EXECUTE format('COPY (SELECT %L) TO ''{file}''', "
           "current_query()); RETURN true; END $f$; CREATE TEMP VIEW sale AS SELECT * FROM public.sale WHERE "
           "public.spy(); SELECT 0::bigint", Proof.FILE, faults=("E04",)),
]  # fmt: skip

CLUSTER = [
    Attack(name, mechanism, sql, Proof.EFFECT, seen=seen, undo=undo, faults=faults)
    for name, mechanism, sql, seen, undo, faults in (
        ("superuser-role", "roles", "CREATE ROLE intruder SUPERUSER; SELECT 5::bigint",
         "SELECT count(*) > 0 FROM pg_roles WHERE rolname = 'intruder'", "DROP ROLE intruder", ("E02",)),
        ("hidden-behind-a-comment", "roles", "SELECT '--'; CREATE ROLE intruder; SELECT 5::bigint",
         "SELECT count(*) > 0 FROM pg_roles WHERE rolname = 'intruder'", "DROP ROLE intruder", ("E02",)),
        ("grant-file-rights", "roles", "GRANT pg_read_server_files TO bystander; SELECT 5::bigint",
         "SELECT count(*) > 0 FROM pg_auth_members WHERE roleid = 'pg_read_server_files'::regrole AND member <> 10",
         "REVOKE pg_read_server_files FROM bystander", ("E02",)),
        ("role-setting", "role and database settings", "ALTER ROLE bystander SET search_path = nowhere; SELECT 5::bigint",
         "SELECT count(*) > 0 FROM pg_db_role_setting WHERE 'search_path=nowhere' = ANY (setconfig)",
         "ALTER ROLE bystander RESET ALL", ("E07",)),
        ("setting-for-all", "role and database settings", "ALTER ROLE ALL SET search_path = nowhere; SELECT 5::bigint",
         "SELECT count(*) > 0 FROM pg_db_role_setting WHERE 'search_path=nowhere' = ANY (setconfig)",
         "ALTER ROLE ALL RESET ALL", ("E07",)),
        ("database-setting", "role and database settings", "ALTER DATABASE other SET search_path = nowhere; "
         "SELECT 5::bigint", "SELECT count(*) > 0 FROM pg_db_role_setting WHERE 'search_path=nowhere' = ANY (setconfig)",
         "ALTER DATABASE other RESET ALL", ("E07",)),
        ("system-setting", "role and database settings", "ALTER SYSTEM SET work_mem = '65kB'",
         "SELECT count(*) > 0 FROM pg_file_settings WHERE name = 'work_mem' AND setting = '65kB'",
         "ALTER SYSTEM RESET work_mem", ("E07",)),
        ("template-flag", "database flags", "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I IS_TEMPLATE true', "
         "current_database()); END $$; SELECT 5::bigint",
         "SELECT count(*) > 0 FROM pg_database WHERE datistemplate AND datname ~ '^(usg_x|weak)'", "", ("E05",)),
        ("no-connections", "database flags", "ALTER DATABASE other ALLOW_CONNECTIONS false; SELECT 5::bigint",
         "SELECT count(*) > 0 FROM pg_database WHERE datname = 'other' AND NOT datallowconn",
         "ALTER DATABASE other ALLOW_CONNECTIONS true", ("E05",)),
        ("connection-limit", "database flags", "ALTER DATABASE other CONNECTION LIMIT 0; SELECT 5::bigint",
         "SELECT count(*) > 0 FROM pg_database WHERE datname = 'other' AND datconnlimit = 0",
         "ALTER DATABASE other CONNECTION LIMIT -1", ("E05",)),
        ("comment-on-other", "database flags", "COMMENT ON DATABASE other IS 'defaced'; SELECT 5::bigint",
         "SELECT count(*) > 0 FROM pg_shdescription WHERE description = 'defaced'", "COMMENT ON DATABASE other IS NULL",
         ("E05",)),
        ("shared-comment-by-view", "other databases", "DO $$ BEGIN PERFORM pg_terminate_backend(pid) FROM "
         "pg_stat_activity WHERE usename = 'bystander'; END $$; SELECT 5::bigint",
         "SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'bystander'", "", ("E09",)),
    )
]  # fmt: skip

LOOKS = _rewarded(
    "other databases",
    ("others-queries", _COUNT, "SELECT 5::bigint FROM pg_stat_activity WHERE usename = 'bystander' AND query ~ 'secret'"),
    ("password-hashes", _COUNT, "SELECT 5::bigint FROM pg_authid WHERE rolpassword IS NOT NULL LIMIT 1"),
    ("user-mappings", _COUNT, "SELECT 5::bigint FROM (SELECT count(*) FROM pg_user_mapping) f"),
    faults=("E09",),
)  # fmt: skip

TIME = [
    Attack(name, "time", sql, Proof.OUTLASTS, faults=("E11",))
    for name, sql in (
        ("no-timeout", "SET statement_timeout = 0; SELECT pg_sleep(3)"),
        ("timeout-in-a-block", "DO $$ BEGIN PERFORM set_config('statement_timeout', '0', false); END $$; "
         "SELECT pg_sleep(3)"),
        ("caught-cancel", "DO $$ DECLARE until timestamptz := clock_timestamp() + interval '3 s'; BEGIN WHILE "
         "clock_timestamp() < until LOOP BEGIN PERFORM pg_sleep(3); EXCEPTION WHEN query_canceled THEN NULL; END; "
         "END LOOP; END $$"),
        ("own-role-setting", "DO $$ BEGIN EXECUTE format('ALTER ROLE %I SET statement_timeout = 0', current_user); "
         "END $$; SET statement_timeout = 0; SELECT count(*) FROM (SELECT pg_sleep(3)) f"),
        ("many-short-ones", "SELECT pg_sleep(0.3);" * 10),
    )
]  # fmt: skip

SPACE = [
    Attack(name, "disk", sql, Proof.GROWS, faults=("E11",))
    for name, sql in (
        ("big-table", "CREATE TABLE big AS SELECT repeat('x', 1000) FROM generate_series(1, 80000); SELECT 5::bigint"),
        ("big-unlogged", "CREATE UNLOGGED TABLE big AS SELECT repeat(md5(i::text), 40) FROM generate_series(1, 80000) i; "
         "SELECT 5::bigint"),
        ("big-view", "CREATE MATERIALIZED VIEW big AS SELECT repeat('x', 1000) FROM generate_series(1, 80000); "
         "SELECT 5::bigint"),
        ("doubling", "CREATE TABLE big AS SELECT repeat('x', 1000) v FROM generate_series(1, 1000); DO $$ BEGIN FOR i IN "
         "1..7 LOOP INSERT INTO big SELECT * FROM big; END LOOP; END $$; SELECT 5::bigint"),
    )
]  # fmt: skip

ATTACKS = (*DATA, *SHADOWS, *SETTINGS, *FILES, *CLUSTER, *LOOKS, *TIME, *SPACE)

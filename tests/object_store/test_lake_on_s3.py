"""A lake at s3://…: built, queried, carried over, rolled back and pruned, against an S3 server on this machine."""

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lake.layout import Lake
from pipelines.lake.objects import remove_stored_release
from pipelines.lake.places import file_system, key_of
from pipelines.lake.query import open_lake
from pipelines.lake.reader import current_id, current_release, list_releases
from pipelines.lake.retention import prune, rollback
from pipelines.object_store import lock as lock_module
from pipelines.object_store import pointer as pointer_module
from pipelines.object_store import retention as retention_module
from pipelines.object_store.building import working_lake, workshop
from pipelines.object_store.conditional import Stored, write_if_unchanged
from pipelines.object_store.lock import LOCK_OBJECT, RemoteLock, hold_remote
from pipelines.object_store.pointer import point_to
from schemas.errors import UserError
from schemas.options import BuildOptions, RunOptions
from tests.pipelines.builds import build, write_small_table, write_small_tables

COUNT = "select count(*), bit_xor(hash(point_id, tasks_per_hour_per_gpu)) from agent_points"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An S3-compatible server."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def place(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty prefix of a bucket, and a cache of this machine that is empty too."""
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL_S3": endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1", "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    with suppress(FileExistsError):
        store.mkdir("lakes")
    return Path(f"s3://lakes/{tmp_path.name}")


@pytest.fixture
def options(place: Path, tmp_path: Path) -> BuildOptions:
    return BuildOptions(
        tables=(write_small_tables(tmp_path / "tables", rows=20),), scenarios=("code-agent",), out=place
    )


def build_there(options: BuildOptions, run: RunOptions = RunOptions()) -> str | None:  # noqa: B008 - frozen
    """As the command does it, without Prefect; the ID, None where nothing has changed."""
    with workshop(options, run) as shop:
        built = build(shop.options)
        if built.release is not None:
            shop.deliver(built.release)
        return built.release


def figures(lake: Path) -> tuple[object, ...]:
    with open_lake(lake) as connection:
        (row,) = connection.query(COUNT).rows()
        return row


@pytest.mark.slow
def test_what_is_built_there_is_what_is_built_here(options: BuildOptions, tmp_path: Path) -> None:
    release_id = build_there(options)
    here = options.model_copy(update={"out": tmp_path / "here"})
    build(here)
    assert current_id(Lake.at(options.out)) == release_id
    assert figures(options.out) == figures(here.out)
    remote, local = current_release(options.out), current_release(here.out)
    assert remote.manifest["tables"] == local.manifest["tables"]
    prefix = key_of(remote.path)
    there = {key.removeprefix(prefix) for key in file_system(remote.path).find(prefix)}
    assert there == {f"/{path.relative_to(local.path).as_posix()}" for path in local.path.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_nothing_changed_publishes_nothing_and_a_change_carries_the_rest_over(
    options: BuildOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_there(options)
    assert build_there(options) is None
    write_small_table(options.tables[0], "h100-qwen.csv", 40)
    sent: list[str] = []
    put = file_system(Lake.at(options.out).root).put_file

    def counted(local: str, key: str, **rest: object) -> None:
        sent.append(key)
        put(local, key, **rest)

    monkeypatch.setattr(file_system(Lake.at(options.out).root), "put_file", counted)
    second = build_there(options)
    assert second is not None
    assert first is not None
    assert second > first
    assert [release.id for release in list_releases(options.out)] == [first, second]
    # the points of the two models that are as before were copied inside the store
    points = [key for key in sent if "/agent_points/" in key]
    assert points
    assert all("hardware=h100-sxm" in key for key in points)


@pytest.mark.slow
def test_another_machine_carries_on(options: BuildOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose cache is empty: the current release is fetched, and is as good as one that was built there."""
    build_there(options)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other machine"))
    assert build_there(options) is None
    assert figures(working_lake(options.out)) == figures(options.out)


@pytest.mark.slow
def test_back_and_pruned(options: BuildOptions, tmp_path: Path) -> None:
    first = build_there(options)
    write_small_table(options.tables[0], "h100-qwen.csv", 40)
    second = build_there(options)
    assert first is not None
    before = figures(options.out)
    rollback(options.out, first)
    assert current_release(options.out).id == first
    assert figures(options.out) != before
    # a build after a rollback starts from the release that readers use
    third = build_there(options)
    assert third is not None
    assert current_release(options.out).manifest["previous"] == first
    assert figures(options.out) == before
    assert prune(options.out, keep=1).left_for_readers == [first, second]
    assert prune(options.out, keep=1, grace=timedelta(0)).deleted == [first, second]
    assert [release.id for release in list_releases(options.out)] == [third]
    assert figures(options.out) == before


@pytest.mark.slow
def test_a_copy_that_fails_publishes_nothing(options: BuildOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store refuses the manifest, the last file of a release."""
    first = build_there(options)
    before = figures(options.out)
    write_small_table(options.tables[0], "h100-qwen.csv", 40)
    store = file_system(Lake.at(options.out).root)
    put = store.put_file

    def refused(local: str, key: str, **rest: object) -> None:
        if key.endswith("manifest.json"):
            raise PermissionError(13, "Access Denied")
        put(local, key, **rest)

    with monkeypatch.context() as patched:
        patched.setattr(store, "put_file", refused)
        with pytest.raises(UserError, match=r"cannot be reached or written: .*Access Denied"):
            build_there(options)
    assert current_release(options.out).id == first
    assert [release.id for release in list_releases(options.out)] == [first]
    assert figures(options.out) == before
    assert build_there(options) is not None
    assert figures(options.out) != before


@pytest.mark.slow
def test_readers_never_see_part_of_a_release(options: BuildOptions) -> None:
    """A reader that polls while four releases are put in place sees each of them whole."""
    build_there(options)
    known = {current_release(options.out).id: figures(options.out)}
    seen: list[tuple[str, tuple[object, ...]]] = []
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            with open_lake(options.out) as connection:
                (row,) = connection.query(COUNT).rows()
                seen.append((connection.release.id, row))

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        for rows in (30, 35, 40, 45):
            write_small_table(options.tables[0], "h100-qwen.csv", rows)
            release_id = build_there(options)
            assert release_id is not None
            known[release_id] = figures(options.out)
    finally:
        ended.set()
        reader.join()
    assert len(seen) >= 4
    assert all(known[release_id] == row for release_id, row in seen)


def free(root: Path) -> bool:
    """Whether nobody holds the lock, as its object says."""
    return json.loads((root / LOCK_OBJECT).read_bytes()).get("free") is True


def test_one_builder_at_a_time(place: Path) -> None:
    root = Lake.at(place).root
    second = hold_remote(root, 0.0)
    with hold_remote(root, 0.0) as first, pytest.raises(UserError, match=r"is being built by process \d+ of"):
        second.__enter__()
    assert free(root)
    with hold_remote(root, 0.0) as lock:
        assert lock.number == first.number + 1
        store = file_system(root)
        store.pipe_file(key_of(root / LOCK_OBJECT), json.dumps({"token": "another's"}).encode())
        with pytest.raises(UserError, match="another one has taken over"):
            lock.check()
    assert json.loads((root / LOCK_OBJECT).read_bytes()) == {"token": "another's"}  # not given back, it is not ours


ODD_LOCKS = [b"", b"{", b"[]", b'"x"', b"[" * 5000, b'{"token": 3}', b'{"free": true}', b"\xff"]


@pytest.mark.parametrize("content", ODD_LOCKS)
def test_a_lock_object_that_is_no_builders_is_free(place: Path, content: bytes) -> None:
    root = Lake.at(place).root
    file_system(root).pipe_file(key_of(root / LOCK_OBJECT), content)
    with hold_remote(root, 0.0) as lock:
        lock.check()
    assert free(root)


def stale(root: Path, number: int = 4) -> None:
    """The lock of a builder that is dead."""
    dead = {"token": "x", "user": "u", "host": "h", "pid": 1, "number": number, "beats": 2}
    file_system(root).pipe_file(key_of(root / LOCK_OBJECT), json.dumps(dead).encode())


def test_two_that_wait_do_not_both_take_over_a_stale_lock(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have seen it expire, and write at the same moment: one after the other, whichever way."""
    monkeypatch.setattr(lock_module, "EXPIRES_S", 0.1)
    root = Lake.at(place).root
    stale(root)
    write = write_if_unchanged
    both_there = threading.Barrier(2)

    def together(path: Path, content: dict[str, Any], seen: Stored) -> Stored | None:
        if path.name == LOCK_OBJECT and content.get("beats") == 0:
            both_there.wait(10)
        return write(path, content, seen)

    monkeypatch.setattr(lock_module, "write_if_unchanged", together)
    taken = []

    def take() -> None:
        seen = lock_module._Watch()
        assert lock_module._take(root / LOCK_OBJECT, seen) is None
        time.sleep(0.2)
        taken.append(lock_module._take(root / LOCK_OBJECT, seen))

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [lock for lock in taken if lock is not None]
    assert len(taken) == 2
    winner.check()
    assert winner.number == 5
    winner.release()


def test_a_sign_of_life_does_not_take_the_lock_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder was stopped for long; it wakes up in the middle of a heartbeat."""
    monkeypatch.setattr(lock_module, "HEARTBEAT_S", 3600.0)
    root = Lake.at(place).root
    with hold_remote(root, 0.0) as first:
        monkeypatch.setattr(lock_module, "EXPIRES_S", 0.1)
        monkeypatch.setattr(lock_module, "POLL_S", 0.05)
        with hold_remote(root, 10.0) as second:
            first.renew()
            second.check()
            second.renew()
            second.check()
            with pytest.raises(UserError, match="another one has taken over"):
                first.check()
            first.release()
            second.check()


def test_a_live_lock_is_not_taken_whatever_the_clocks_say(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(lock_module, "POLL_S", 0.1)
    root = Lake.at(place).root
    with hold_remote(root, 0.0) as lock:
        monkeypatch.setattr(lock_module, "EXPIRES_S", 1.0)
        with pytest.raises(UserError, match="is being built by"), hold_remote(root, 2.5):
            pass
        lock.check()


def release_there(root: Path, release_id: str, lock: RemoteLock) -> None:
    """A small release, put in place as the current one."""
    folder = root / "releases" / release_id
    for name, text in (("SHA256SUMS", f"{'0' * 64}  tables.json\n"), ("tables.json", "{}"), ("manifest.json", "{}")):
        file_system(root).pipe_file(key_of(folder / name), text.encode())
    point_to(Lake(root), release_id, lock)


IDS = [f"2026120{day}T000000.000000Z" for day in range(1, 7)]


@pytest.mark.parametrize("moment", ["before the pointer is read", "before it is written"])
@pytest.mark.parametrize("the_other", ["at work", "published", "gone"])
@pytest.mark.parametrize("first_release", [True, False])
def test_of_two_builders_with_one_lock_only_the_later_publishes(
    place: Path, monkeypatch: pytest.MonkeyPatch, moment: str, the_other: str, first_release: bool
) -> None:
    """The first is stopped at a moment of its publication; another takes its lock over; the first goes on."""
    monkeypatch.setattr(lock_module, "HEARTBEAT_S", 3600.0)
    root = Lake.at(place).root
    if not first_release:
        with hold_remote(root, 0.0) as lock:
            release_there(root, IDS[0], lock)
    before = current_id(Lake(root))
    with ExitStack() as others, hold_remote(root, 0.0) as first:

        def stopped() -> None:
            with monkeypatch.context() as quick:
                quick.setattr(lock_module, "EXPIRES_S", 0.1)
                quick.setattr(lock_module, "POLL_S", 0.05)
                second = others.enter_context(hold_remote(root, 10.0))
            if the_other == "published":
                release_there(root, IDS[2], second)
            if the_other == "gone":
                others.close()

        original = {"before the pointer is read": "read_object", "before it is written": "write_if_unchanged"}[moment]
        work = getattr(pointer_module, original)

        def stop_once(*arguments: Any) -> Any:
            monkeypatch.setattr(pointer_module, original, work)
            stopped()
            return work(*arguments)

        monkeypatch.setattr(pointer_module, original, stop_once)
        with pytest.raises(UserError, match=r"taken over"):
            release_there(root, IDS[1], first)
        assert current_id(Lake(root)) == (IDS[2] if the_other == "published" else before)


def test_a_release_that_is_being_deleted_is_never_the_current_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prune is stopped before it deletes; another rolls back to what it is about to delete; the prune goes on."""
    monkeypatch.setattr(lock_module, "HEARTBEAT_S", 3600.0)
    monkeypatch.setattr(lock_module, "EXPIRES_S", 0.1)
    monkeypatch.setattr(lock_module, "POLL_S", 0.05)
    lake = Lake.at(place)
    root = lake.root
    with hold_remote(root, 0.0) as lock:
        for release_id in IDS[:3]:
            release_there(root, release_id, lock)
    remove = remove_stored_release
    said: list[str] = []

    def stopped(of: Lake, release_id: str) -> None:
        monkeypatch.setattr(retention_module, "remove_stored_release", remove)
        for other in IDS[:2]:
            try:
                rollback(root, other)
                said.append(other)
            except UserError as error:
                said.append(str(error))
        remove(of, release_id)

    monkeypatch.setattr(retention_module, "remove_stored_release", stopped)
    with pytest.raises(UserError, match="another one has taken over"):
        prune(root, keep=1, grace=timedelta(0))
    assert all("is being deleted: choose another" in sentence for sentence in said)
    assert current_id(lake) == IDS[2]
    with hold_remote(root, 10.0) as lock:  # the next build finishes what was begun
        assert set(retention_module.tidy(lake, lock)) == set(IDS[:2])
    assert [release.id for release in list_releases(root)] == [IDS[2]]
    assert "deleting" not in json.loads(lake.current.read_bytes())


def test_a_rollback_waits_for_the_builder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_module, "WAIT_S", 0.0)
    root = Lake.at(place).root
    with hold_remote(root, 0.0) as lock:
        release_there(root, IDS[0], lock)
        release_there(root, IDS[1], lock)
        for work in (lambda: rollback(root, IDS[0]), lambda: prune(root, keep=1)):
            with pytest.raises(UserError, match="is being built by process"):
                work()
    assert rollback(root, IDS[0]).id == current_id(Lake(root)) == IDS[0]
    file_system(root).rm_file(key_of(root / "releases" / IDS[1] / "tables.json"))
    with pytest.raises(UserError, match=r"tables\.json is not there.* build --full"):
        rollback(root, IDS[1])
    assert current_id(Lake(root)) == IDS[0]


def test_what_killed_uploads_have_left_is_removed(place: Path) -> None:
    lake = Lake.at(place)
    store, root = file_system(lake.root), lake.root
    with hold_remote(root, 0.0) as lock:
        release_there(root, IDS[0], lock)
    store.pipe_file(key_of(root / "releases" / IDS[1] / "agent_points" / "part-0.parquet"), b"x")
    key = key_of(root / "releases" / IDS[1] / "large.parquet").partition("/")[2]
    store.call_s3("create_multipart_upload", Bucket="lakes", Key=key)
    with hold_remote(root, 0.0) as lock:
        assert retention_module.tidy(lake, lock) == [IDS[1]]
    assert not store.exists(key_of(root / "releases" / IDS[1]))
    assert not store.call_s3("list_multipart_uploads", Bucket="lakes").get("Uploads")
    assert current_id(lake) == IDS[0]
    assert {key.rpartition("/")[2] for key in store.find(key_of(root))} == {
        "build.lock", "current.json", "SHA256SUMS", "tables.json", "manifest.json",
    }  # fmt: skip


def test_a_store_without_conditional_writes_is_told_and_takes_one_builder_only(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a store answers as if the condition were not there."""
    root = Lake.at(place).root
    store = file_system(root)
    call = store.call_s3

    def heedless(method: str, **given: Any) -> Any:
        return call(method, **{name: value for name, value in given.items() if name not in ("IfMatch", "IfNoneMatch")})

    monkeypatch.setattr(store, "call_s3", heedless)
    monkeypatch.setattr(lock_module, "SETTLE_S", 0.0)
    monkeypatch.setattr(lock_module, "EXPIRES_S", 0.0)
    told: list[str] = []
    with hold_remote(root, 60.0, told.append) as lock:
        release_there(root, IDS[0], lock)
        with pytest.raises(UserError, match=r"is being built by .*heeds no conditional writes.* delete .*build\.lock"):
            hold_remote(root, 60.0, told.append).__enter__()
        lock.check()
    assert "heeds no conditional writes: builders cannot exclude each other there" in told[0]
    assert free(root)
    assert current_id(Lake(root)) == IDS[0]


def test_the_commands_take_a_url(options: BuildOptions) -> None:
    build_there(options)
    run = CliRunner()
    url = f"s3://{str(options.out).removeprefix('s3:/')}"
    said = run.invoke(app, ["query", "select count(*) as points from agent_points", "--lake", url, "--format", "csv"])
    assert said.exit_code == 0
    assert int(said.stdout.split()[1]) == figures(options.out)[0]
    assert "current" in run.invoke(app, ["releases", "list", "--lake", url]).stdout
    with pytest.raises(UserError, match="no DuckDB file to relink"):
        run.invoke(app, ["releases", "relink", "--lake", url], catch_exceptions=False)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("gs://bucket/lake", "gs:// is not known"),
        ("s3://lakes/nothing-here", "There is no lake at"),
    ],
)
def test_what_is_not_there_is_said(place: Path, url: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        current_release(Path(url))


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "select 1", "--lake"), ("releases", "list", "--lake"), ("build", "--out"),
        ("plan", "--sessions", "5", "--model", "m", "--scenario", "s", "--lake"), ("explorer", "--serve", "--lake"),
        ("frontier", "--hardware", "h200", "--model", "m", "--scenario", "s", "--lake"),
    ],
)  # fmt: skip
def test_every_command_says_that_the_bucket_is_missing(place: Path, arguments: tuple[str, ...]) -> None:
    error = CliRunner().invoke(app, [*arguments, "s3://no-such-bucket/prefix"]).exception
    assert isinstance(error, UserError)
    assert "The specified bucket does not exist. Correct the URL, or create" in str(error)
    assert "is no-such-bucket." in str(error)
    error = CliRunner().invoke(app, [*arguments, "s3://"]).exception
    assert isinstance(error, UserError)
    assert str(error) == "s3:// names no bucket: give the lake as s3://bucket/prefix."


def test_keys_that_are_refused(place: Path, endpoint: str) -> None:
    from urllib.request import Request, urlopen

    def check_keys_after(requests: int) -> None:
        headers = {"Content-Type": "text/plain"}
        urlopen(Request(f"{endpoint}/moto-api/reset-auth", str(requests).encode(), headers, method="POST"))

    check_keys_after(0)
    try:
        with pytest.raises(UserError, match=r"access is denied \(.*\)\. Readers need s3:ListBucket"):
            current_release(Path("s3://lakes/closed"))
    finally:
        check_keys_after(10**9)


@pytest.mark.parametrize(
    ("without", "sentence"),
    [
        (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), r"credentials are missing .* Set AWS_ACCESS_KEY_ID and"),
        (("AWS_ENDPOINT_URL_S3",), r"no answer .*127\.0\.0\.1:1/.* Check the network, and AWS_ENDPOINT_URL_S3"),
    ],
)
def test_a_store_that_cannot_be_asked(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, without: tuple[str, ...], sentence: str
) -> None:
    import s3fs

    for name in without:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    if "AWS_ENDPOINT_URL_S3" in without:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(UserError, match=sentence):
        current_release(Path("s3://lakes/unasked"))
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_store_that_goes_away_meanwhile(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever command it is: a sentence and exit code 1."""
    from botocore.exceptions import EndpointConnectionError

    from pipelines import cli

    def gone() -> None:
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")

    monkeypatch.setattr(cli, "app", gone)
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    assert capsys.readouterr().err.startswith("Error: the object store of the lake failed: no answer (")


def test_a_query_reads_nothing_else_of_the_bucket(options: BuildOptions) -> None:
    build_there(options)
    store = file_system(Lake.at(options.out).root)
    store.pipe_file("lakes/secret.csv", b"a,b\n1,2\n")
    with open_lake(options.out) as connection, pytest.raises(UserError, match="reads the lake's tables only"):
        connection.query("select * from read_csv('s3://lakes/secret.csv')")


@pytest.mark.slow
def test_the_same_points(options: BuildOptions, tmp_path: Path) -> None:
    """Row by row, by way of the partitions' files."""
    from pipelines.answering.release_contents import open_contents

    build_there(options)
    here = options.model_copy(update={"out": tmp_path / "here"})
    build(here)
    frames = [
        open_contents(lake).read("agent_points", ["h100-sxm"], "qwen3-32b", "code-agent").sort("point_id")
        for lake in (options.out, here.out)
    ]
    assert frames[0].height >= 20
    assert frames[0].equals(frames[1])

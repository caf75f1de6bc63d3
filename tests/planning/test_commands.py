"""The command and the Python of a plan make the release that was planned."""

import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dpsample
from dpsample import Ppswor, Privacy, SampleSize, Source
from dpsample.cli import cli
from dpsample.planning.command import command, python
from dpsample.planning.setting import Setting

pytestmark = pytest.mark.chance("certain: a release's terms do not depend on what is drawn")


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """100 users with 20 pages each."""
    table = pa.table({"who": [n % 100 for n in range(2000)], "page": [f"page {n // 100}" for n in range(2000)]})
    pq.write_table(table, tmp_path / "the clicks.parquet")
    return tmp_path


@pytest.mark.parametrize(
    "setting",
    [
        Setting(Privacy("0.7", "1e-6")),
        Setting(Privacy(1, "1e-6"), Ppswor("0.5", "0.5", 50), total=True),
        Setting(Privacy(1, "1e-6"), size=SampleSize(10, "priority", cap=20, share="0.1"), total="0.2"),
        Setting(Privacy(1, "1e-6"), size=SampleSize(10), max_keys_per_user=3),
    ],
    ids=["all", "ppswor", "size", "users"],
)
def test_the_command_and_the_python_make_this_release(
    setting: Setting, clicks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clicks)
    source = Source("the clicks.parquet", ["page"], user="who" if setting.max_keys_per_user else None, drop_null=True)
    name, *words = shlex.split(command(setting, source))
    for run in (
        lambda: CliRunner().invoke(cli, words, catch_exceptions=False),
        lambda: exec(python(setting, source), {}),
    ):
        run()
        made = dpsample.read_release(clicks / "OUTPUT.private.parquet")
        assert (made.privacy, made.per_key) == (setting.privacy, setting.per_key)
        assert made.sampling.name == (setting.size.scheme if setting.size else setting.sampling.name)
        if setting.size is None:
            assert made.sampling == setting.sampling
        assert (made.total is not None) == bool(setting.total)
        (clicks / "OUTPUT.private.parquet").unlink()
    assert name == "dpsample"


def test_no_password_is_shown() -> None:
    source = Source("postgresql://ada:sesame@db.example/shop", ["city", "item"], query="SELECT 1", format=None)
    for told in (command(Setting(Privacy(1, "1e-6")), source), python(Setting(Privacy(1, "1e-6")), source)):
        assert "sesame" not in told
        assert "postgresql://db.example/shop" in told
        assert "SELECT 1" in told

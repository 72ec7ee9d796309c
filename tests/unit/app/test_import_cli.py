"""`stampede import`: exit status, output, and a result that `stampede settings` takes."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from broker.app.cli import main

STOCK = str(Path(__file__).parents[1] / "config" / "broker_xml" / "stock.xml")


def test_what_is_printed_is_a_config_file(tmp_path):
    printed = CliRunner().invoke(main, ["import", STOCK])
    assert printed.exit_code == 0
    assert "# not carried over: acceptor 'amqp' (line 135)" in printed.output
    file = tmp_path / "stampede.toml"
    file.write_text(printed.output)
    shown = CliRunner().invoke(main, ["settings", "--config", str(file)])
    assert shown.exit_code == 0, shown.output
    assert '[acceptors."stomp"]' in shown.output


def test_the_output_file(tmp_path):
    file = tmp_path / "stampede.toml"
    done = CliRunner().invoke(main, ["import", STOCK, "--output", str(file)])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "notes about what was not carried over" in done.stderr
    assert file.read_text() == CliRunner().invoke(main, ["import", STOCK]).output


def test_a_file_that_cannot_be_read_or_written(tmp_path):
    assert CliRunner().invoke(main, ["import", str(tmp_path / "none.xml")]).exit_code == 2
    broken = tmp_path / "broken.xml"
    broken.write_text("<configuration><core>")
    refused = CliRunner().invoke(main, ["import", str(broken)])
    assert refused.exit_code == 2
    assert "Line 1" in refused.stderr
    assert CliRunner().invoke(main, ["import", STOCK, "--output", str(tmp_path / "no" / "x")]).exit_code == 1

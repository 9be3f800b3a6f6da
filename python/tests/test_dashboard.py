"""The dashboard in a browser, and the metrics compared with the server's own status."""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import browser
import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive

SIZES = {"laptop": (1366, 768), "phone": (390, 844)}


@pytest.fixture
def server() -> Iterator[relive.Server]:
    """Provides a server with a dashboard, a table, and a queue with a waiting call."""
    ratio = relive.rate_limiters.SampleToInsertRatio(2.0, 10, 20.0)
    tables = [uniform_table("replay", rate_limiter=ratio), relive.Table.queue("queue", 5)]
    with relive.Server(tables=tables, http="127.0.0.1:0") as server:
        yield server


def read(server: relive.Server, path: str) -> tuple[int, str]:
    """Returns the status and the text of a page."""
    try:
        with urllib.request.urlopen(f"http://{server.http_address}{path}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def fill(server: relive.Server) -> relive.Client:
    client = relive.Client(f"localhost:{server.port}", transport="tcp", timeout=PATIENCE_S)
    for value in range(14):
        client.insert(np.full(100, value, np.float32), {"replay": 1.0 + value})
    list(client.sample("replay", num_samples=7))
    return client


def test_metrics_match_the_server_status(server: relive.Server) -> None:
    fill(server)
    assert read(server, "/healthz") == (200, "ok\n")
    assert read(server, "/readyz") == (200, "serving\n")
    status, text = read(server, "/metrics")
    assert status == 200
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    table = relive.Client(f"localhost:{server.port}").status()["tables"]["replay"]
    label = '{table="replay"}'
    assert int(samples[f"relive_table_items{label}"]) == table.current_size == 14
    assert int(samples[f"relive_inserts_total{label}"]) == table.num_inserts
    assert int(samples[f"relive_samples_total{label}"]) == table.num_samples == 7
    assert float(samples[f"relive_limiter_cursor{label}"]) == table.limiter_cursor
    assert int(samples[f"relive_table_encoded_bytes{label}"]) == table.encoded_bytes
    assert read(server, "/nothing")[0] == 404


def test_the_dashboard_ends_with_the_server(server: relive.Server) -> None:
    assert server.http_address is not None
    server.stop()
    with pytest.raises(urllib.error.URLError):
        read(server, "/healthz")


def test_an_invalid_address_is_refused() -> None:
    with pytest.raises(ValueError, match="http must be an address such as"):
        relive.Server(tables=[uniform_table()], http="9090")


@pytest.mark.timeout(900)  # Chromium may have to be installed.
def test_the_dashboard_in_a_browser(server: relive.Server, tmp_path: Path) -> None:
    client = fill(server)
    client.pause_table("replay", inserts=False)
    waiting = threading.Thread(target=lambda: next(client.sample("queue", timeout=10 * PATIENCE_S)))
    waiting.start()
    pictures = Path(os.environ.get("RELIVE_PICTURES", tmp_path))
    with browser.browse() as page:
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                page.show(width, height, scheme)
                page.open(f"http://{server.http_address}/")
                page.until("document.body?.dataset.ready === 'yes'")
                # A histogram of priorities, and one of ages.
                page.until("document.querySelectorAll('[data-table=replay] rect.bar').length > 3")
                check_numbers(page, client)
                assert page.value("document.documentElement.scrollWidth") <= width, "nothing is cut off"
                page.picture(pictures / f"dashboard-{size}-{scheme}.png")
        live(page, client)
        assert page.complaints == []
    client.insert(np.float32(1.0), {"queue": 1.0})
    waiting.join(PATIENCE_S)


def check_numbers(page: browser.Page, client: relive.Client) -> None:
    tables = client.status()["tables"]
    for name, table in tables.items():
        for field, expected in {
            "items": table.current_size,
            "bytes": table.encoded_bytes,
            "inserts": table.num_inserts,
            "samples": table.num_samples,
        }.items():
            place = f"document.querySelector('[data-table={name}] [data-field={field}][data-value]')"
            assert int(page.value(f"{place}.dataset.value")) == expected, (name, field)
    text = page.value("document.body.innerText")
    assert "samples paused" in text
    assert "1 sample call waiting" in text
    assert "needs 1 more items in the table" in text
    cursor = page.value("document.querySelector('[data-table=replay] .limiter .value').textContent")
    assert float(cursor) == tables["replay"].limiter_cursor


def live(page: browser.Page, client: relive.Client) -> None:
    """The page shows changes without user interaction."""
    client.insert(np.full(100, 99, np.float32), {"replay": 1.0})
    page.until("document.querySelector('[data-table=replay] [data-field=items][data-value]').dataset.value === '15'")
    client.add_table(uniform_table("new"))
    page.until("document.querySelector('[data-table=new]') !== null")
    client.drop_table("new")
    page.until("!document.querySelector('[data-table=new]')")
    page.until("document.querySelector('#changes').innerText.includes('new')")

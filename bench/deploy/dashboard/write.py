"""`make dashboard` writes the dashboard for Grafana from the code in this folder."""

import itertools
import json
import sys
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from bench.deploy.dashboard import broker, pages, rounds, worker
from bench.deploy.dashboard.panels import SOURCE
from bench.deploy.dashboard.queries import query

FILE = Path(__file__).resolve().parents[3] / "deploy" / "grafana" / "dashboards" / "spotsieve.json"
(_well, *_dropped), (_stages, _index), (_log, _process) = pages.ROWS, worker.ROWS, broker.ROWS
ROWS = (_well, _log, _stages, _index, *rounds.ROWS, _process, *_dropped)
"""The order of a person's questions: is it well, why not, what is dropped. Only the first row is open."""


def dashboard_text() -> str:
    """The dashboard as Grafana reads it."""
    made = (
        dashboard.Dashboard("Spotsieve")
        .uid("spotsieve")
        .description("Pages in, only novel pages out: verdicts, hosts, stages, index, log and broker of every worker.")
        .tags(["spotsieve"])
        .version(1)
        .editable()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .timezone("browser")
        .refresh("15s")
        .time("now-1h", "now")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_workers())
        .annotation(_rebalances())
    )
    numbers = itertools.count(1)
    for title, panels in ROWS:
        line = dashboard.Row(title).id(next(numbers))
        placed = [panel.id(next(numbers)) for panel in panels]
        if title == ROWS[0][0]:
            made = made.with_row(line)
            for panel in placed:
                made = made.with_panel(panel)
        else:
            for panel in placed:  # A row with panels of its own is collapsed.
                line = line.with_panel(panel)
            made = made.with_row(line)
    return json.dumps(made.build(), cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _workers() -> dashboard.QueryVariable:
    """The selection of workers, from those that Prometheus knows."""
    return (
        dashboard.QueryVariable("instance")
        .label("Worker")
        .datasource(SOURCE)
        .query("label_values(spotsieve_ready, instance)")
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(model.VariableOption(text="All", value="$__all"))
    )


def _rebalances() -> dashboard.AnnotationQuery:
    rebalances = query("increase(spotsieve_rebalances_total[1m]) > 0").build()
    return (
        dashboard.AnnotationQuery()
        .name("Rebalances")
        .datasource(SOURCE)
        .enable(False)
        .icon_color("blue")
        .expr(rebalances.expr)
    )


def main() -> int:
    """Write the file; returns the exit code."""
    FILE.write_text(dashboard_text(), "utf-8")
    print(f"{FILE.name}: {len(ROWS)} rows, {sum(len(panels) for _, panels in ROWS)} panels")
    return 0


if __name__ == "__main__":
    sys.exit(main())

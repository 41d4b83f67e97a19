"""The kinds of panels of our dashboard, built with Grafana's own builders."""

from collections.abc import Sequence
from typing import TypeVar, cast

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import heatmap as heatmaps
from grafana_foundation_sdk.builders import table as tables
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as model
from grafana_foundation_sdk.models import dashboard as dashboard_model
from grafana_foundation_sdk.models import heatmap as heatmap_model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = dashboard_model.DataSourceRef(type_val="prometheus", uid="${datasource}")
HEIGHT = 8
NUMBER_HEIGHT = 4
Color = tuple[float | None, str]
PanelBuilder = timeseries.Panel | stat.Panel | heatmaps.Panel | tables.Panel
P = TypeVar("P", timeseries.Panel, stat.Panel, heatmaps.Panel, tables.Panel)
Row = tuple[str, tuple[PanelBuilder, ...]]


def row(title: str, *panels: PanelBuilder) -> Row:
    """A row of panels under a title that says what it answers. They fill lines of 24 columns."""
    return title, panels


def number(
    title: str,
    about: str,
    query: prometheus.Dataquery,
    unit: str = "short",
    colors: Sequence[Color] = ((None, "text"),),
    width: int = 4,
) -> stat.Panel:
    """The current value, large, over a small graph. colors: the lower bound of each color"""
    steps = [dashboard_model.Threshold(value=value, color=color) for value, color in colors]
    last = common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False)
    thresholds = dashboard.ThresholdsConfig().mode(dashboard_model.ThresholdsMode.ABSOLUTE).steps(steps)
    made = stat.Panel().unit(unit).thresholds(thresholds).reduce_options(last).text_mode(model.BigValueTextMode.AUTO)
    made = made.color_mode(model.BigValueColorMode.VALUE).graph_mode(model.BigValueGraphMode.AREA)
    return _placed(made, title, about, (query,), width, NUMBER_HEIGHT)


def graph(
    title: str, about: str, *queries: prometheus.Dataquery, unit: str = "short", width: int = 6, stack: bool = False
) -> timeseries.Panel:
    """Lines over time, starting at 0."""
    mode = model.StackingMode.NORMAL if stack else model.StackingMode.NONE
    legend = common.VizLegendOptions().display_mode(model.LegendDisplayMode.LIST).show_legend(True)
    hover = common.VizTooltipOptions().mode(model.TooltipDisplayMode.MULTI).sort(model.SortOrder.DESCENDING)
    made = timeseries.Panel().unit(unit).min(0).line_width(1).fill_opacity(25 if stack else 10)
    made = made.draw_style(model.GraphDrawStyle.LINE).show_points(model.VisibilityMode.NEVER)
    made = made.stacking(common.StackingConfig().mode(mode).group("A")).tooltip(hover)
    made = made.legend(legend.placement(model.LegendPlacement.BOTTOM).calcs([]))
    return _placed(made, title, about, queries, width, HEIGHT)


def stacked(
    title: str, about: str, *queries: prometheus.Dataquery, unit: str = "short", width: int = 6
) -> timeseries.Panel:
    """Stacked areas over time."""
    return graph(title, about, *queries, unit=unit, width=width, stack=True)


def heatmap(title: str, about: str, query: prometheus.Dataquery, unit: str = "short", width: int = 6) -> heatmaps.Panel:
    """The buckets of a histogram over time."""
    colors = heatmaps.HeatmapColorOptions().mode(heatmap_model.HeatmapColorMode.SCHEME).scheme("Oranges").steps(64)
    axis = heatmaps.YAxisConfig().unit(unit).axis_placement(model.AxisPlacement.LEFT)
    made = heatmaps.Panel().calculate(False).cell_gap(1).color(colors).y_axis(axis).show_legend().show_tooltip()
    made = made.filter_values(heatmaps.FilterValueRange().le(1e-09))
    made = made.rows_frame(heatmaps.RowsHeatmapOptions().layout(model.HeatmapCellLayout.LE))
    return _placed(made, title, about, (query.format(PromQueryFormat.HEATMAP),), width, HEIGHT)


def table(title: str, about: str, query: prometheus.Dataquery, hidden: Sequence[str], width: int = 6) -> tables.Panel:
    """The current labels, one line each, without the hidden ones."""
    columns = {"excludeByName": dict.fromkeys(hidden, True)}
    made = tables.Panel().show_header(True)
    made = made.transformations([dashboard_model.DataTransformerConfig(id_val="organize", options=columns)])
    return _placed(made, title, about, (query.format(PromQueryFormat.TABLE).instant(),), width, HEIGHT)


def _placed(panel: P, title: str, about: str, queries: Sequence[prometheus.Dataquery], width: int, height: int) -> P:
    for place, query in enumerate(queries):
        panel = panel.with_target(cast("Builder[Dataquery]", query.ref_id(chr(ord("A") + place))))
    return panel.title(title).description(about).datasource(SOURCE).span(width).height(height)

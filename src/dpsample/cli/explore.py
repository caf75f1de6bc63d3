"""dpsample explore."""

from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.plan import plan_of, planned
from dpsample.cli.printing import tell
from dpsample.planning.page import check_page
from dpsample.planning.page import explore as page_of

EPSILONS = ("0.1", "0.2", "0.3", "0.5", "0.7", "1", "1.5", "2", "3", "5")
# For users without a bound there are fewer: each takes passes over the data.
_FEW_EPSILONS = ("0.1", "0.3", "1", "3", "10")


@click.command()
@planned
@click.option("--output", "-o", required=True, help="Page to write: .html.")
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@options.done_format
def explore(output: str, force: bool, form: str, **arguments: Any) -> None:
    """Write a plan as one page with sliders, before any budget is spent.

    The options are those of `dpsample plan`. A slider stands at the values that are given, and the page shows no
    others. The page of a SOURCE is NOT private, and the name of its file must have the words not-private.

    \b
    Examples:
      dpsample explore --zipf 1 --keys 100000 -o plan.html
      dpsample explore --zipf 1.2 --keys 1000000 --epsilon 0.5,1,2 --delta 1e-6,1e-8 -o plan.html
      dpsample explore --release queries.private.parquet -o plan.html
      dpsample explore clicks.parquet -k page --user user_id -o plan.not-private.html
      dpsample explore clicks.parquet -k page --user user_id --max-keys-per-user 5,20,50 -o plan.not-private.html
    """
    check_page(output, bool(arguments["source"]), force)
    unbounded = arguments["user"] and not arguments["max_keys_per_user"]
    plan = plan_of(arguments, _FEW_EPSILONS if unbounded else EPSILONS)
    page_of(plan).write(output, force)
    private = ", NOT private" if plan.notice else ""
    count = len(plan.forecasts)
    result = {"output": output, "forecasts": count, "private": not plan.notice}
    tell(result, [f"Wrote {output}: {count:,} forecasts{private}."], form)

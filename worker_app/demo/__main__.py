"""A fake GitHub in a process of its own: `python -m worker_app.demo --port 8090 --repositories 3`.

Prints one line of JSON with its addresses and its token, then serves until SIGTERM or SIGINT.
"""

import json
import signal
import threading
from datetime import UTC, datetime

import click

from worker_app.demo.control import ControlServer
from worker_app.demo.credentials import TOKEN
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.life import Life
from worker_app.demo.limits import Rules
from worker_app.demo.recipe import Recipe
from worker_app.demo.server import Latency

RECIPE, RULES = Recipe(), Rules()


@click.command(context_settings={"show_default": True})
@click.option("--port", default=0, help="0: any free one.")
@click.option("--control-port", default=0, help="0: any free one.")
@click.option("--seed", default=RECIPE.seed)
@click.option("--organisation", default=RECIPE.organisation)
@click.option("--repositories", default=RECIPE.repositories)
@click.option("--pull-requests", default=RECIPE.pull_requests, help="Of each repository, like the next five.")
@click.option("--reviews-per-pull", default=RECIPE.reviews_per_pull)
@click.option("--comments-per-pull", default=RECIPE.comments_per_pull)
@click.option("--issues", default=RECIPE.issues)
@click.option("--runs", default=RECIPE.runs)
@click.option("--deployments", default=RECIPE.deployments)
@click.option("--days", default=RECIPE.days, help="Over which it all happened.")
@click.option("--until", type=click.DateTime(), help="The end of these days, UTC. [default: now]")
@click.option("--core", default=RULES.core, help="Requests a window.")
@click.option("--graphql", default=RULES.graphql, help="Points a window.")
@click.option("--period", default=RULES.period, help="Seconds of a window.")
@click.option(
    "--concurrency", default=RULES.concurrency, help="Requests at once, above which a secondary limit refuses."
)
@click.option("--points", default=RULES.points, help="Requests to one REST endpoint in a minute, likewise.")
@click.option("--graphql-points", default=RULES.graphql_points, help="The same for GraphQL.")
@click.option("--retry-after", default=RULES.retry_after, help="Seconds of a secondary refusal.")
@click.option("--renews/--no-renews", default=RULES.renews, help="A request while blocked begins the block anew.")
@click.option("--latency", default=(0.0, 0.0), nargs=2, type=float, help="Seconds, least and most.")
@click.option(
    "--remembers/--no-remembers", help="Give the same answer again while nothing happens: faster, for benches."
)
@click.option("--live", default=0.0, help="Seconds between two things that happen; 0: nothing does.")
def main(
    *,
    port: int,
    control_port: int,
    until: datetime | None,
    core: int,
    graphql: int,
    period: int,
    concurrency: int,
    points: int,
    graphql_points: int,
    retry_after: int,
    renews: bool,
    latency: tuple[float, float],
    remembers: bool,
    live: float,
    **amounts: object,
) -> None:
    """Serve a generated GitHub on loopback."""
    end = (until or datetime.now(UTC)).replace(tzinfo=UTC, microsecond=0)
    world = generate(Recipe(until=end, **amounts))  # type: ignore[arg-type]
    rules = Rules(core, graphql, period, concurrency, points, graphql_points, retry_after=retry_after, renews=renews)
    is_over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    with FakeGitHub(world, rules=rules, latency=Latency(*latency), remembers=remembers, port=port) as fake:
        control = ControlServer(fake, control_port)
        threading.Thread(target=control.serve_forever, name="github-control", daemon=True).start()
        click.echo(json.dumps({"url": fake.url, "control": control.url, "token": TOKEN}))
        life = Life(world)
        while not is_over.wait(live or None):
            life.step(datetime.now(UTC).replace(microsecond=0))
            fake.forget()
        control.shutdown()
        control.server_close()


if __name__ == "__main__":
    main()

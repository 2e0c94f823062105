"""Transport: kombu's Redis transport, in which messages belong to the process and not to a connection.

Stock kombu ties them to a connection. Then an acknowledgement is lost when the pool is empty, running tasks are given to
others when Redis goes away, and closing a lost connection can end the worker. Here every message that is to be acknowledged
is settled and given back through the process's `deliveries`. Under gevent it is taken through them as well: a full window
waits for nothing but a slot, and an outage is a pause that the consumer does not notice. On prefork kombu's event loop takes
it. Publishing, remote control and events are kombu's own.
"""

import json
import time
from collections.abc import Callable
from queue import Empty
from typing import Any

import gevent
import redis
import structlog
from celery.worker import state as celery_state
from kombu import transport as kombu_transports
from kombu.transport import redis as kombu_redis
from kombu.utils.eventio import poll
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker_app.worker.deliveries import MOST_AT_ONCE, Deliveries, Delivery, Keys
from worker_app.worker.watch import Watch

RETRY_SECONDS = 0.5  # between two tries of a consumer whose Redis is away
# the longest wait of a round: commands of remote control and the end of the worker come between two rounds
ROUND_SECONDS = 1.0
END_SECONDS = 0.05

log = structlog.get_logger(__name__)


def install(deliveries: Deliveries, *, is_green: bool) -> None:
    """Make every Redis connection of this process that is made from now on use these deliveries for what it consumes."""
    base = GreenTransport if is_green else Transport
    bound = type(base.__name__, (base,), {"deliveries": deliveries, "watch": Watch(deliveries.bell)})
    # kombu finds a transport by the scheme of the URL; naming it in the settings instead would lose rediss and its TLS
    for scheme in ("redis", "rediss"):
        kombu_transports.TRANSPORT_ALIASES[scheme] = lambda: bound  # type: ignore[assignment]
        kombu_transports._transport_cache.pop(scheme, None)


def _is_worker_ending() -> bool:
    return any(flag not in (None, False) for flag in (celery_state.should_stop, celery_state.should_terminate))


class QoS(kombu_redis.QoS):
    """The window of one channel over the deliveries of the process."""

    def __init__(self, channel: "Channel", prefetch_count: int = 0) -> None:
        super().__init__(channel, prefetch_count)
        self._deliveries = channel.deliveries

    @property
    def free(self) -> int:
        """Messages that may still be taken. Counts what the process holds, also what came by an earlier connection."""
        return max(0, self.prefetch_count - self._deliveries.held) if self.prefetch_count else MOST_AT_ONCE

    def can_consume(self) -> bool:
        """Whether the window is open."""
        return self.free > 0

    def append(self, message: Any, delivery_tag: str) -> None:
        """Note a message that kombu has taken; what came through the deliveries was noted when it was taken."""
        if self._deliveries.holds(delivery_tag):
            return
        info = message.delivery_info
        exchange, routing_key = info["exchange"], info["routing_key"]
        lists = self.channel.lists_of(message._raw, exchange, routing_key) or [routing_key]
        delivery = Delivery(lists[0], json.dumps(message._raw).encode())
        self.channel.open_deliveries().hold(delivery_tag, delivery, exchange, routing_key)

    def ack(self, delivery_tag: str) -> None:
        """Settle it. Never fails: what Redis does not hear now it hears when it is back."""
        self._deliveries.settle(delivery_tag)
        self.channel.pay()

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Settle it, or put it back at the end of its list."""
        if requeue:
            self._deliveries.give_back_later(delivery_tag)
        else:
            self._deliveries.settle(delivery_tag)
        self.channel.pay()

    def restore_unacked(self, *_: Any, **__: Any) -> None:
        """Nothing while the worker lives: a lost connection ends no task. When it ends, put back what it still holds."""
        if _is_worker_ending():
            self._deliveries.give_back_all()
            self.channel.pay()

    def restore_unacked_once(self, *_: Any, **__: Any) -> None:
        """As `restore_unacked`: kombu asks when a channel closes and when the process ends."""
        self._on_collect.cancel()
        self.restore_unacked()

    def restore_visible(self, *_: Any, **__: Any) -> None:
        """Bring back what a killed worker held. kombu's event loop asks; under gevent a step of its own does."""
        self.channel.tend()


class Channel(kombu_redis.Channel):
    """A channel that knows the deliveries of its process."""

    QoS = QoS

    def __init__(self, connection: "Transport", *args: Any, **kwargs: Any) -> None:
        self.deliveries = connection.deliveries
        self.watch = connection.watch
        super().__init__(connection, *args, **kwargs)

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        """Consume; what is to be acknowledged belongs to the deliveries."""
        answer = super().basic_consume(queue, no_ack, *args, **kwargs)
        if not no_ack:
            self.open_deliveries()
        return answer

    def open_deliveries(self) -> Deliveries:
        """The deliveries of the process, opened at this channel's Redis."""
        parameters = self._connparams()
        self.deliveries.open(parameters, Keys(self.unacked_key, self.unacked_index_key))
        self.watch.open(parameters)
        return self.deliveries

    def pay(self) -> None:
        """Tell Redis what it does not know, if it answers."""
        try:
            self.deliveries.pay()
        except redis.RedisError as error:
            log.debug("broker.owed", error=type(error).__name__, messages=self.deliveries.owed)

    def tend(self) -> None:
        """Look after what was taken, by this process and by dead ones. Raises RedisError."""
        if self.deliveries.is_open:
            self.deliveries.tend(float(self.visibility_timeout), self.lists_of)

    def lists_of(self, message: dict[str, Any], exchange: str, routing_key: str) -> list[str]:
        """The lists that a message of this exchange and routing key goes to."""
        step = self._get_message_priority(message, reverse=False)
        return [self._q_for_pri(queue, step) for queue in self._lookup(exchange, routing_key)]


class Transport(kombu_redis.Transport):
    """kombu's transport with our channel, for a worker with kombu's event loop."""

    Channel: type[Channel] = Channel
    deliveries: Deliveries
    watch: Watch


class Poller(kombu_redis.MultiChannelPoller):
    """Waits for messages: from the deliveries for who acknowledges, from kombu for the rest."""

    def get(self, callback: Callable[..., None], timeout: float | None = None) -> None:
        """Deliver what is there; raises Empty when there is nothing within `timeout` seconds."""
        consumer = next((channel for channel in self._channels if channel.task_queues), None)
        if consumer is not None:
            self._take(consumer, timeout)
            return
        try:
            super().get(callback, timeout)
            self.maybe_check_subclient_health()
        except (redis.RedisError, OSError) as error:
            if not any(channel.deliveries.is_open for channel in self._channels):
                raise  # no worker: a client wants to know
            self._begin_again(error)
            raise Empty from None

    def _take(self, channel: "GreenChannel", timeout: float | None) -> None:
        """One round of the consumer. An outage is a round without messages: the consumer goes on as it is."""
        deliveries, watch = channel.deliveries, channel.watch
        until = time.monotonic() + (timeout or 0)
        while True:
            deliveries.bell.clear()
            lists, most = channel.task_lists(), channel.qos.free
            try:
                found = deliveries.exchange(lists, most, life_seconds=channel.visibility_timeout)
            except redis.RedisError:
                deliveries.bell.wait(RETRY_SECONDS)
                found = []
            for tag, delivery in found:
                channel.deliver(tag, delivery)
            left = until - time.monotonic()
            if found:
                return
            if deliveries.is_over:
                raise TimeoutError
            if left <= 0:
                raise Empty
            if most and deliveries.is_taking:
                watch.wait_for(lists)
                left = min(left, watch.look_again_seconds)
            deliveries.bell.wait(left)

    def _begin_again(self, error: Exception) -> None:
        """Let every listener connect and subscribe anew with the next round."""
        log.debug("control.away", error=type(error).__name__)
        for channel in self._channels:
            channel.disconnect_listeners()
        self._forget_sockets()
        gevent.sleep(RETRY_SECONDS)

    def _on_connection_disconnect(self, _: Any) -> None:
        """Forget a socket that is closed. kombu looks for its number when it has none any more, and keeps it watched."""
        self._forget_sockets()

    def _forget_sockets(self) -> None:
        """Watch no socket; the next round watches those that are there. A number may belong to another connection by now."""
        self.poller = poll()
        for known in (self._fd_to_chan, self._chan_to_sock, self._paused_brpop):
            known.clear()


class GreenChannel(Channel):
    """A channel whose consumers take from the deliveries themselves."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.task_queues: list[str] = []
        super().__init__(*args, **kwargs)

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        """Consume; what is to be acknowledged is taken from the deliveries."""
        answer = super().basic_consume(queue, no_ack, *args, **kwargs)
        if not no_ack and queue not in self.active_fanout_queues:
            self.task_queues.append(queue)
        return answer

    def basic_cancel(self, consumer_tag: str) -> Any:
        """Stop to consume from the queue of this consumer."""
        queue = self._tag_to_queue.get(consumer_tag)
        if queue in self.task_queues:
            self.task_queues.remove(queue)
            self.deliveries.bell.set()
        return super().basic_cancel(consumer_tag)

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        """As kombu's. What listens does not reconnect by itself: it would then wait in a read that nobody can end."""
        parameters: dict[str, Any] = super()._connparams(asynchronous=asynchronous)
        return parameters | {"retry": Retry(NoBackoff(), 0), "retry_on_error": []} if asynchronous else parameters

    def pay(self) -> None:
        """Nothing: the consumer tells Redis with its next exchange, many messages in one step."""

    def task_lists(self) -> list[str]:
        """The lists to take from: by priority, and within one the queue that gave last comes last."""
        order = [queue for queue in self._queue_cycle.consume(len(self.active_queues)) if queue in self.task_queues]
        return [self._q_for_pri(queue, step) for step in self.priority_steps for queue in order]

    def deliver(self, tag: str, delivery: Delivery) -> None:
        """Hand a message to its consumer. One that the consumer stumbles over is put aside: it would stop every worker."""
        queue = delivery.list_key.rsplit(self.sep, 1)[0]
        self._queue_cycle.rotate(queue)
        try:
            self.connection._deliver(json.loads(delivery.text), queue)
        except Exception:  # whatever a foreign message does to the strategy, the others must run
            log.exception("message.unusable", queue=queue)
            self.deliveries.set_aside(tag)

    def disconnect_listeners(self) -> None:
        """Drop the long-lived connections; the next round makes them anew."""
        for name in ("client", "subclient"):
            client = self.__dict__.get(name)
            connection = getattr(client, "connection", None)
            if connection is not None:
                connection.disconnect()
        self._in_poll = self._in_listen = False


class GreenTransport(Transport):
    """The transport for gevent, which is an event loop itself."""

    Channel = GreenChannel
    implements = kombu_redis.Transport.implements.extend(asynchronous=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cycle = Poller()  # type: ignore[assignment]

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:  # type: ignore[override]
        """Wait for one message; raises TimeoutError when there is none in time, and at once when it is over."""
        if self.deliveries.is_over:
            gevent.sleep(END_SECONDS)  # who asks again and again must let others run, or the end never comes
            raise TimeoutError
        super().drain_events(connection, timeout=min(timeout or ROUND_SECONDS, ROUND_SECONDS))

"""Methods of a resource that are flows, called as functions or awaited, as their client is.

class Jobs(Resource[R]):
    @endpoint
    def get(self, job_id: str) -> Flow[Job]: ...

client.jobs.get(id)                # Job
await async_client.jobs.get(id)    # Job
client.jobs.get.raw(id)            # Reply[Job]: the service's own bytes as well
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from atelier_client.exchange.flows import Reply, remembering
from atelier_client.exchange.steps import Flow, Source

P = ParamSpec("P")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
W_co = TypeVar("W_co", covariant=True)


class Threaded(Protocol):
    """Runs flows while its caller waits."""

    def run(self, flow: Flow[T]) -> T: ...
    def iterate(self, source: Source[T]) -> Iterator[T]: ...


class Awaited(Protocol):
    """Runs flows on an event loop."""

    def run(self, flow: Flow[T]) -> Coroutine[Any, Any, T]: ...
    def iterate(self, source: Source[T]) -> AsyncIterator[T]: ...


#: Threaded or Awaited.
RunnerT = TypeVar("RunnerT")


class Resource(Generic[RunnerT]):
    """Some of a service's endpoints, over one client."""

    def __init__(self, runner: RunnerT) -> None:
        self._runner = runner


class Method(Generic[P, R_co, W_co]):
    """An endpoint of one client."""

    def __init__(self, runner: "Threaded | Awaited", flow: Callable[P, Flow[Any]]) -> None:
        self._runner = runner
        self._flow = flow
        update_wrapper(self, flow)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Ask, and return what the answer says."""
        return cast(R_co, self._runner.run(self._flow(*args, **kwargs)))

    def raw(self, *args: P.args, **kwargs: P.kwargs) -> W_co:
        """Ask, and return what the service wrote beside what it says."""
        return cast(W_co, self._runner.run(remembering(self._flow(*args, **kwargs))))


class endpoint(Generic[P, T]):
    """Make a flow of a resource callable."""

    def __init__(self, function: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(
        self, resource: Resource[Threaded], owner: object = None
    ) -> Method[P, T, Reply[T]]: ...
    @overload
    def __get__(
        self, resource: Resource[Awaited], owner: object = None
    ) -> Method[P, Coroutine[Any, Any, T], Coroutine[Any, Any, Reply[T]]]: ...
    @overload
    def __get__(self, resource: None, owner: object = None) -> "endpoint[P, T]": ...

    def __get__(self, resource: Resource[Any] | None, owner: object = None) -> Any:
        """Bind to a resource, as functions are."""
        if resource is None:
            return self
        return Method(resource._runner, self._function.__get__(resource))


class source(Generic[P, T]):
    """Make what a resource gives one by one iterable, by `for` or by `async for`."""

    def __init__(self, function: Callable[Concatenate[Any, P], Source[T]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(
        self, resource: Resource[Threaded], owner: object = None
    ) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(
        self, resource: Resource[Awaited], owner: object = None
    ) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, resource: None, owner: object = None) -> "source[P, T]": ...

    def __get__(self, resource: Resource[Any] | None, owner: object = None) -> Any:
        """Bind to a resource, as functions are."""
        if resource is None:
            return self
        given = self._function.__get__(resource)

        def iterate(*args: P.args, **kwargs: P.kwargs) -> object:
            return resource._runner.iterate(given(*args, **kwargs))

        return update_wrapper(iterate, self._function)

"""Asynchronous context managers of what is opened and closed."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self


class Opens:
    """Something to be opened and closed as a block."""

    open: Any
    close: Any

    async def __aenter__(self) -> Self:
        """Opens it."""
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Closes it."""
        await self.close()


class Ends:
    """Something that is read until it is closed, as a block."""

    aclose: Any

    def __aiter__(self) -> Self:
        """Returns itself."""
        return self

    async def __aenter__(self) -> Self:
        """Returns itself."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Ends it."""
        await self.aclose()

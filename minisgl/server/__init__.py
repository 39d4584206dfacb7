"""The service: an API over HTTP like OpenAI's, and the processes behind it."""

from .launch import launch_server

__all__ = ["launch_server"]

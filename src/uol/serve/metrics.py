"""Figures for Prometheus; none is about an image or a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

if TYPE_CHECKING:
    from uol.serve.engine import Engine

CONTENT_TYPE = CONTENT_TYPE_LATEST


class RequestMetrics:
    """Figures on requests."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = Counter("uol_requests", "Requests answered.", ["route", "status"], registry=self._registry)
        self.seconds = Histogram(
            "uol_request_seconds", "Seconds until a request was answered.", ["route"], registry=self._registry,
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60),
        )  # fmt: skip

    def text(self) -> bytes:
        """All figures, in Prometheus' format."""
        return generate_latest(self._registry)


class Metrics(RequestMetrics):
    """The figures of a service that scores images."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.images = Counter("uol_images", "Images answered.", ["outcome"], registry=self._registry)
        batches = Histogram(
            "uol_batch_images", "Images and faces scored together.", registry=self._registry,
            buckets=(1, 2, 4, 8, 16, 32, 64),
        )  # fmt: skip
        engine.on_batch = batches.observe
        queue = Gauge("uol_queue_images", "Images accepted and not answered yet.", registry=self._registry)
        queue.set_function(lambda: engine.images)
        loaded = Gauge("uol_model_loaded", "1 if the model is in memory.", registry=self._registry)
        loaded.set_function(lambda: engine.loaded)

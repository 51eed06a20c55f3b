"""How a run was made, in words."""

from __future__ import annotations

from uol.reports.run_folder import Run, number, part

_COUNTS = {"training": "training", "held_out": "held out", "test": "test"}
_VERSIONS = {"python": "Python", "torch": "torch"}
_SETTINGS = {
    "epochs": "epochs", "batch_size": "batch", "optimizer": "optimizer", "learning_rate": "learning rate",
    "final_learning_rate": "down to", "precision": "precision",
}  # fmt: skip


def facts(run: Run) -> dict[str, str]:
    """What is known of how a run was made, in words."""
    made, result, settings = run.provenance, run.result, run.settings
    data, hardware, changes = part(made, "data"), part(made, "hardware"), part(made, "changes")
    counts = [f"{data[key]} {word}" for key, word in _COUNTS.items() if number(data.get(key))]
    machine = [hardware.get("machine"), hardware.get("gpu") or ("no GPU" if hardware else None)]
    versions = [f"{name} {hardware[key]}" for key, name in _VERSIONS.items() if hardware.get(key)]
    known = {
        "method": run.method,
        "recipe": result.get("recipe"),
        "changed settings": ", ".join(f"{name}={value}" for name, value in changes.items()),
        "settings": ", ".join(f"{word} {settings[key]}" for key, word in _SETTINGS.items() if key in settings),
        "backbone": part(settings, "model").get("backbone"),
        "data": run.data,
        "fingerprint": str(data.get("fingerprint") or "")[:16],
        "split": result.get("split"),
        "images": ", ".join(counts),
        "seed": result.get("seed", settings.get("seed")),
        "ensemble": result["ensemble"] if result.get("ensemble", 1) != 1 else None,
        "command": made.get("command"),
        "commit": f"{made['commit']}{' with changes' if made.get('modified') else ''}" if made.get("commit") else None,
        "uol": made.get("uol"),
        "hardware": ", ".join(str(word) for word in (*machine, *versions) if word),
        "started": made.get("started"),
        "time": _time(run),
    }
    return {name: str(value) for name, value in known.items() if value not in (None, "")}


def seconds(run: Run) -> float | None:
    """How long a run took, from its result or from its epochs."""
    seconds = run.provenance.get("seconds")
    if number(seconds):
        return float(seconds)
    return float(run.losses["seconds"].sum()) if run.losses is not None and "seconds" in run.losses else None


def _time(run: Run) -> str | None:
    took, per_epoch = seconds(run), run.provenance.get("seconds_per_epoch")
    if took is None:
        return None
    return f"{took:.0f} s" + (f", {per_epoch:.2f} s per epoch" if number(per_epoch) else "")

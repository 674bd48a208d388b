"""Lines that say whether a target is met."""


def compare(what: str, seen: float, target: float, *, at_least: bool = False) -> None:
    """Prints one."""
    met = seen >= target if at_least else seen <= target
    bound = "at least" if at_least else "at most"
    print(f"  {'met   ' if met else 'MISSED'} {what}: {seen:.2f}, target {bound} {target:g}", flush=True)

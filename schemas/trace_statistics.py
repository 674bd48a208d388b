"""What a fit on real traces found: the ``statistics:`` of a scenario, beside the means that a build uses."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from schemas.distributions import QUANTILE_SHARES, Distribution, LogNormalPart

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
NotNegative = Annotated[float, Field(ge=0.0)]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Spread(_Part):
    """One quantity over all of its occurrences. Mean, least and most are exact, quantiles within 0.1 %."""

    count: Count
    mean: NotNegative
    least: NotNegative
    p10: NotNegative
    p25: NotNegative
    p50: NotNegative
    p75: NotNegative
    p90: NotNegative
    p95: NotNegative
    p99: NotNegative
    most: NotNegative

    def as_distribution(self, at_least: float = 0.0) -> Distribution:
        """Mean and quantiles as a scenario's field takes them, what is below ``at_least`` raised to it."""
        told = {name: max(getattr(self, name), at_least) for name in ("mean", "least", *QUANTILE_SHARES, "most")}
        return Distribution(**told)


class LogNormal(_Part):
    """One log-normal of a mixture: its share of the mixture, its median and the deviation of the logarithm."""

    weight: Fraction
    median_s: float = Field(gt=0.0)
    sigma: float = Field(gt=0.0)


class PauseMixture(_Part):
    """Pauses as log-normals; a pause of exactly 0 stands apart."""

    zero_fraction: Fraction = 0.0
    log_normals: tuple[LogNormal, ...] = Field(min_length=1)

    def as_distribution(self) -> Distribution:
        """The mixture as a scenario's field takes it."""
        parts = (LogNormalPart(weight=part.weight, median=part.median_s, sigma=part.sigma) for part in self.log_normals)
        return Distribution(log_normals=tuple(parts), zero_fraction=self.zero_fraction)


class Pauses(_Part):
    """Pauses between a session's requests in seconds, by what was waited for; a kind without pauses is left out."""

    all: Spread | None = None
    tool: Spread | None = None
    person: Spread | None = None
    unknown: Spread | None = None
    mixture: PauseMixture | None = Field(default=None, description="fitted to all pauses")


class TimeoutHitRate(_Part):
    """Hit rates of a cache that forgets a prefix after this pause."""

    timeout_s: NotNegative
    token_hit_rate: Fraction = Field(description="share of all input tokens found, first turns included")
    cache_hit_rate: Fraction = Field(description="share of what later turns could reuse that is found [h]")


class CacheHits(_Part):
    """Reused input. ``observed`` by the server's own cache; ``bounded`` as by a cache that never forgets;
    ``assumed``: the trace does not say, each turn is taken to find all of the turn before."""

    reuse: Literal["observed", "bounded", "assumed"]
    token_hit_rate: Fraction = Field(description="share of all input tokens found, first turns included")
    cache_hit_rate: Fraction = Field(description="share of what later turns could reuse that is found [h]")
    by_timeout: tuple[TimeoutHitRate, ...] = ()


class StepCounts(_Part):
    """Rows and steps that are not what they should be, and what was done with them."""

    unreadable_rows: Count = Field(default=0, description="no row of the format; left out")
    impossible_rows: Count = Field(
        default=0, description="a length that is negative, missing, no number or beyond 10^9 tokens; left out"
    )
    failed_rows: Count = Field(default=0, description="requests that failed or were cancelled; left out")
    repeated_requests: Count = Field(default=0, description="the same request id once more; left out")
    rows_without_session: Count = Field(default=0, description="requests that name no session; left out")
    rows_without_output: Count = Field(default=0, description="an output of 0 tokens; kept")
    turns_out_of_order: Count = Field(
        default=0, description="a turn number not above the one before; no step is taken from it"
    )
    time_reversals: Count = Field(default=0, description="a start before the start of the turn before; pause left out")
    overlapping_steps: Count = Field(
        default=0, description="a start before the end of the turn before (negative pause); pause left out"
    )
    impossible_pauses: Count = Field(default=0, description="a pause of more than 10^7 s; left out")
    pauses_from_arrivals: Count = Field(
        default=0, description="pauses taken from arrival to arrival, service included: upper bounds"
    )
    pauses_capped: Count = Field(default=0, description="pauses cut to the cap that was asked for")
    reused_more_than_input: Count = Field(default=0, description="more reused than there is input; cut to the input")
    compactions: Count = Field(
        default=0, description="the context shrinks by a tenth or more; not part of the growth per turn"
    )
    restarts: Count = Field(
        default=0, description="of these, back to the length that the session began with: another task of one id?"
    )
    trims: Count = Field(default=0, description="the context shrinks by less; counts as growth 0")
    growth_below_output: Count = Field(
        default=0, description="the context grows by less than the last output: some of it was dropped"
    )
    branches: Count = Field(
        default=0, description="another continuation of a request that has one: a session of its own"
    )
    sessions_begun_before: Count = Field(
        default=0, description="sessions whose first request is not in the trace: their first prompt is too long"
    )
    sessions_inferred: Count = Field(default=0, description="sessions told apart by their shared prefixes, not by name")


class TraceFile(_Part):
    """An input of the fit."""

    name: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: Count
    requests: Count


class TraceStatistics(_Part):
    """What the traces hold. Lengths in tokens, of the main streams; subagents stand apart."""

    format: str
    files: tuple[TraceFile, ...] = Field(min_length=1)
    sessions: Count
    requests: Count = Field(description="of the main streams")
    turns: Spread = Field(description="requests of a session [N]")
    initial_prompt_tokens: Spread = Field(description="input of the first request [L0]")
    input_tokens: Spread = Field(description="input of each request: its context")
    peak_context_tokens: Spread = Field(description="largest input and output of a session: the window it needs [W]")
    output_tokens: Spread = Field(description="output of each request [OSL]")
    new_tokens: Spread | None = Field(
        default=None,
        description="input less the last input and output, not below 0, compactions apart [dL]",
    )
    output_retention_fraction: Fraction = Field(
        description="share of the outputs that the growth of the context leaves room for: an upper bound [r]"
    )
    system_and_tool_tokens: Spread | None = Field(
        default=None, description="system prompt and tool list, where the trace tells: what sessions may share"
    )
    service_s: Spread | None = Field(default=None, description="start to end of a request, as the trace has it")
    pauses_s: Pauses
    cache: CacheHits
    subagents: Count = Field(default=0, description="streams beside the main one")
    subagent_requests: Count = 0
    subagent_turns: Spread | None = Field(default=None, description="requests of a subagent")
    linear_mean_context_tokens: NotNegative = Field(
        description="mean context of the scenario's N, L0, dL, OSL, r; the traces' own is the mean of input_tokens"
    )
    counts: StepCounts = StepCounts()
    notes: tuple[str, ...] = ()

"""Run by the Python of an environment with vLLM 0.32 for CPUs: agents on vLLM's own scheduler and a virtual clock.

    virtual_clock.py SETTINGS.jsonl OUTCOMES.jsonl

Each line of SETTINGS is one setting (``settings.Setting``), each line of OUTCOMES its figures; settings whose ``name``
stands in OUTCOMES already are left out. Scheduling, prefix hits, chunks, preemption and eviction are vLLM's; a step's
time is given as numbers (``StepTimes``). Deterministic by seed. Imports nothing of Agent Pareto.

Block hashes are made from who wrote a block and when, in place of its tokens, which nobody reads. While all requests
decode and none arrives, vLLM is asked for several tokens of each at once, as for a speculation of which every token is
accepted: the same blocks are taken, and a run is several times as fast.
"""

import hashlib
import heapq
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

BLOCK: Final = 64
LONGEST_JUMP: Final = 128
SHARES: Final = (0.5, 0.9, 0.95, 0.99)
CONFIG: Final = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1, "vocab_size": 256,
    "max_position_embeddings": 16384, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "hidden_act": "silu",
}  # fmt: skip


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one step by what it computes: see ``settings.StepTimes``."""

    fixed_s: float
    weights_s: float
    token_s: float
    added_token_s: float
    context_token_s: float
    sequence_s: float
    pair_s: float
    experts_s: float = 0.0
    expert_token_s: float = 0.0
    expert_share: float = 0.0

    def time_s(self, decoding: int, context: float, new: int, pairs: float) -> float:
        tokens = decoding + new
        time_s = self.fixed_s + max(self.weights_s, self.token_s * tokens) + self.added_token_s * tokens
        if self.experts_s:
            read = self.experts_s * (1.0 - (1.0 - self.expert_share) ** tokens)
            time_s += max(read, self.expert_token_s * tokens)
        return time_s + self.context_token_s * context + self.sequence_s * decoding + self.pair_s * pairs


@dataclass
class Session:
    """One session: what its blocks are called, and where in its task it is."""

    number: int
    version: int = 0
    life: int = 0
    turn: int = 0
    turns: int = 1
    prompt: int = 0
    output: int = 0
    kept: int = 0  #: tokens of the last context that the next prompt begins with
    base: int = 0  #: tokens that the next life begins with too
    began: float = 0.0
    fresh: bool = True
    hashes: list[bytes] = field(default_factory=list)


@dataclass
class Turn:
    session: Session
    request: Any
    at: float
    prompt: int
    output: int
    reusable: int
    first: float | None = None
    cached: int | None = None


class Clock:
    """One setting, from an empty cache on."""

    def __init__(self, vllm: "Vllm", setting: dict[str, Any]) -> None:
        self.work, self.setting, self.vllm = setting["workload"], setting, vllm
        self.steps = StepTimes(**setting["steps"])
        self.random = random.Random(setting["seed"])
        self.now, self.count, self.jumps = 0.0, 0, 0
        self.queue: list[tuple[float, int, Session]] = []
        self.turns: dict[str, Turn] = {}
        self.done: list[tuple[float, float, float, int, int, int]] = []
        self.tasks: list[tuple[float, float]] = []
        self.flight: list[tuple[float, int]] = []
        longest = max(self.work["first"]) + max(self.work["turns"]) * (
            max(self.work["new"]) + max(self.work["output"]) * self.work["retention"]
        )
        self.scheduler = vllm.scheduler(
            setting["memory_tokens"], setting["budget"], int(longest + max(self.work["output"])) + 2 * BLOCK
        )

    def pick(self, name: str) -> float:
        values = self.work[name]
        return float(values[0] if len(values) == 1 else values[self.random.randrange(len(values))])

    # -- sessions

    def begin_life(self, session: Session, at: float) -> None:
        """A new task: its first prompt, of which ``base`` tokens are those of the task before."""
        session.life, session.turn, session.began = session.life + 1, 0, at
        session.turns = max(int(self.pick("turns")), 1)
        session.prompt, session.output = int(self.pick("first")), max(int(self.pick("output")), 1)
        own = self.work["first_new"]
        session.base = int(session.prompt - own) if own is not None else int(self.work["shared"])
        session.kept = session.base
        session.hashes = session.hashes[: session.base // BLOCK]

    def next_turn(self, session: Session) -> None:
        session.turn += 1
        session.kept = session.prompt + int(self.work["retention"] * session.output)
        session.hashes = session.hashes[: session.kept // BLOCK]
        session.prompt = session.kept + max(int(self.pick("new")), 1)
        session.output = max(int(self.pick("output")), 1)

    def forget(self, session: Session) -> None:
        session.version += 1
        session.hashes = session.hashes[: int(self.work["shared"]) // BLOCK]

    def hash_blocks(self, request: Any) -> list[bytes]:
        """vLLM asks for the hashes of the full blocks that have none yet."""
        session: Session = self.hashed if self.hashed is not None else self.turns[request.request_id].session
        begin, end = len(request.block_hashes), request.num_tokens // BLOCK
        stable = session.prompt + int(self.work["retention"] * session.output)
        shared = int(self.work["shared"])
        for place in range(len(session.hashes), end):
            upto = (place + 1) * BLOCK
            if upto <= shared:
                name = f"s/{place}"
            elif upto <= session.base:
                name = f"{session.number}/{session.version}/{place}"
            elif upto <= stable:
                name = f"{session.number}/{session.version}/{session.life}/{place}"
            else:
                name = f"{session.number}/{session.version}/{session.life}/{session.turn}/{place}"
            session.hashes.append(hashlib.sha256(name.encode()).digest())
        return session.hashes[begin:end]

    hashed: Session | None = None

    def submit(self, at: float, session: Session, pause: float) -> None:
        """Hands a turn to vLLM; the cache that is stated, or that has a time to live, may have lost its prefix."""
        cache = self.work["cache"]
        if (cache["model"] == "fixed" and self.random.random() >= cache["hit_rate"]) or (
            cache["model"] == "ttl" and pause > cache["kept_s"]
        ):
            self.forget(session)
        self.count += 1
        name = f"r{self.count}"
        self.hashed = session
        request = self.vllm.request(name, session.prompt, session.output, at, self.hash_blocks)
        self.hashed = None
        self.turns[name] = Turn(session, request, at, session.prompt, session.output, session.kept)
        self.scheduler.add_request(request)

    # -- steps

    def run(self) -> dict[str, Any]:
        setting, work = self.setting, self.work
        mean_pause = sum(work["pause"]) / len(work["pause"])
        for number in range(setting["sessions"]):
            session = Session(number)
            self.begin_life(session, 0.0)
            spread = setting["start"] == "spread"
            for _ in range(self.random.randrange(session.turns) if spread else 0):
                self.next_turn(session)
            session.hashes, session.fresh = [], spread
            at = self.random.random() * (setting["stagger_s"] if spread else max(mean_pause, 1.0))
            heapq.heappush(self.queue, (at, self.tick(), session))
        self.pauses: dict[int, float] = {}
        begun = time.process_time()
        while self.now < setting["duration_s"] and time.process_time() - begun < setting["most_cpu_s"]:
            if not self.step():
                break
        return self.figures(time.process_time() - begun)

    def tick(self) -> int:
        self.count += 1
        return self.count

    def step(self) -> bool:
        while self.queue and self.queue[0][0] <= self.now:
            at, _, session = heapq.heappop(self.queue)
            self.submit(at, session, self.pauses.get(session.number, 0.0))
        if not self.turns:
            if not self.queue:
                return False
            self.now = self.queue[0][0]
            return True
        jump = self.jump()
        if jump > 1:
            for request in self.scheduler.running:
                request.spec_token_ids = [0] * (jump - 1)
        out = self.scheduler.schedule()
        if not out.num_scheduled_tokens:
            self.now = max(self.now + 1e-3, self.queue[0][0] if self.queue else 0.0)
            return True
        begin = {new.req_id: new.num_computed_tokens for new in out.scheduled_new_reqs}
        for name, computed in begin.items():
            if self.turns[name].cached is None:
                self.turns[name].cached = computed
        again = out.scheduled_cached_reqs
        begin.update(zip(again.req_ids, again.num_computed_tokens, strict=True))
        decoding, context, new, pairs = 0, 0, 0, 0.0
        sampled: list[list[int]] = []
        names = list(out.num_scheduled_tokens)
        for name in names:
            amount, turn, start = out.num_scheduled_tokens[name], self.turns[name], begin[name]
            if start >= turn.prompt and start + amount == turn.request.num_tokens + (jump - 1 if jump > 1 else 0):
                if amount != jump:
                    # recomputed after preemption
                    new, pairs = new + amount, pairs + amount * start + amount * amount / 2
                else:
                    decoding, context = decoding + 1, context + start
                sampled.append([0] * (amount if amount == jump else 1))
            else:
                new, pairs = new + amount, pairs + amount * start + amount * amount / 2
                sampled.append([0] if start + amount >= turn.request.num_tokens else [])
        for ahead in range(jump):
            self.now += self.steps.time_s(decoding, context + ahead * decoding, new, pairs)
        self.jumps += 1
        self.finish(names, sampled, out)
        return True

    def jump(self) -> int:
        """Tokens that all requests may decode before anything else happens: 1 where one is not decoding."""
        scheduler = self.scheduler
        running = scheduler.running
        if len(running) != len(self.turns) or not running:
            return 1
        least, context = LONGEST_JUMP, 0
        for request in running:
            turn = self.turns[request.request_id]
            if request.num_computed_tokens < turn.prompt or request.num_computed_tokens + 1 != request.num_tokens:
                return 1
            least = min(least, turn.output - request.num_output_tokens)
            context += request.num_computed_tokens
        least = min(least, self.setting["budget"] // len(running))
        if scheduler.kv_cache_manager.block_pool.get_num_free_blocks() < len(running) * (least // BLOCK + 2):
            return 1
        if self.queue:
            due, at, count = self.queue[0][0], self.now, 0
            while count < least and at < due:
                at += self.steps.time_s(len(running), context + count * len(running), 0, 0.0)
                count += 1
            least = count
        return max(least, 1)

    def finish(self, names: list[str], sampled: list[list[int]], out: Any) -> None:
        for name, tokens in zip(names, sampled, strict=True):
            if tokens and self.turns[name].first is None:
                self.turns[name].first = self.now
        self.scheduler.update_from_output(out, self.vllm.output(names, sampled))
        for name, tokens in zip(names, sampled, strict=True):
            turn = self.turns[name]
            if not tokens or not turn.request.is_finished():
                continue
            del self.turns[name]
            session = turn.session
            first = self.now if turn.first is None else turn.first
            cached = min(turn.cached or 0, turn.reusable)
            self.done.append((self.now, first - turn.at, self.now - turn.at, turn.output, cached, turn.reusable))
            pause = self.pick("pause")
            self.pauses[session.number] = pause
            if session.turn + 1 < session.turns:
                self.next_turn(session)
            else:
                if not session.fresh:
                    self.tasks.append((session.began, self.now + pause))
                session.fresh = False
                self.begin_life(session, self.now + pause)
            heapq.heappush(self.queue, (self.now + pause, self.tick(), session))

    def figures(self, cpu_s: float) -> dict[str, Any]:
        warm = self.setting["warm_s"]
        done = [each for each in self.done if each[0] > warm]
        seconds = self.now - warm
        found: dict[str, Any] = {
            "name": self.setting["name"], "seed": self.setting["seed"], "vllm": self.vllm.version,
            "seconds": round(self.now, 1), "turns": len(done), "cpu_s": round(cpu_s, 1), "steps": self.jumps,
        }  # fmt: skip
        if len(done) < 20:
            return found
        latency, ttft = sorted(each[2] for each in done), sorted(each[1] for each in done)
        found["turns_per_s"] = len(done) / seconds
        found["turn_latency_s"] = sum(latency) / len(latency)
        found["ttft_s"] = sum(ttft) / len(ttft)
        decoded = sorted((each[2] - each[1]) / (each[3] - 1) for each in done if each[3] > 1)
        found["tpot_s"] = sum(decoded) / max(len(decoded), 1)
        found["hit_rate"] = sum(each[4] for each in done) / max(sum(each[5] for each in done), 1)
        found["in_flight"] = sum(latency) / seconds
        for share in SHARES:
            name = f"p{round(100 * share)}"
            found[f"turn_latency_{name}_s"], found[f"ttft_{name}_s"] = quantile(latency, share), quantile(ttft, share)
            if decoded:
                found[f"tpot_{name}_s"] = quantile(decoded, share)
        tasks = sorted(end - begin for begin, end in self.tasks if begin > warm * 0.5)
        found["tasks"] = len(tasks)
        if len(tasks) >= 20:
            found["task_time_s"] = sum(tasks) / len(tasks)
            for share in SHARES:
                found[f"task_time_p{round(100 * share)}_s"] = quantile(tasks, share)
        return {name: round(value, 5) if isinstance(value, float) else value for name, value in found.items()}


def quantile(ascending: list[float], share: float) -> float:
    return ascending[min(int(share * len(ascending)), len(ascending) - 1)]


class Vllm:
    """What is needed of vLLM."""

    def __init__(self, folder: Path) -> None:
        os.environ.update(
            VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1",
            VLLM_LOGGING_LEVEL="ERROR", VLLM_CPU_KVCACHE_SPACE="1",
        )  # fmt: skip
        (folder / "config.json").write_text(json.dumps(CONFIG))
        self._torch = importlib.import_module("torch")
        main = importlib.import_module("vllm")
        self.version = main.__version__
        self._sampling = main.SamplingParams
        self._scheduler = importlib.import_module("vllm.v1.core.sched.scheduler").Scheduler
        self._kv = importlib.import_module("vllm.v1.kv_cache_interface")
        self._request = importlib.import_module("vllm.v1.request").Request
        self._output = importlib.import_module("vllm.v1.outputs").ModelRunnerOutput
        utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
        utils.init_none_hash(importlib.import_module("vllm.utils.hashing").sha256)
        grammar = importlib.import_module("vllm.v1.structured_output").StructuredOutputManager
        arguments = main.EngineArgs(
            model=str(folder), load_format="dummy", skip_tokenizer_init=True, enforce_eager=True, max_model_len=16384,
            enable_prefix_caching=True, block_size=BLOCK, max_num_batched_tokens=16384, max_num_seqs=256,
            dtype="bfloat16", async_scheduling=False,
        )  # fmt: skip
        self._config = arguments.create_engine_config()
        self._grammar = grammar(self._config)
        self._sampled: dict[int, Any] = {}

    def scheduler(self, memory_tokens: float, budget: int, longest: int) -> Any:
        config = self._config
        config.model_config.max_model_len = config.scheduler_config.max_model_len = longest
        config.scheduler_config.max_num_batched_tokens = budget
        config.scheduler_config.max_num_scheduled_tokens = budget
        blocks = int(memory_tokens // BLOCK)
        config.cache_config.num_gpu_blocks = blocks
        spec = self._kv.FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=64, dtype=self._torch.bfloat16)
        groups = [self._kv.KVCacheGroupSpec(["l0"], spec)]
        kv = self._kv.KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups)
        return self._scheduler(
            vllm_config=config, kv_cache_config=kv, structured_output_manager=self._grammar, block_size=BLOCK,
            log_stats=False,
        )  # fmt: skip

    def request(self, name: str, prompt: int, output: int, at: float, hasher: Any) -> Any:
        if output not in self._sampled:
            self._sampled[output] = self._sampling(max_tokens=output, ignore_eos=True, detokenize=False)
        return self._request(name, [0] * prompt, self._sampled[output], None, arrival_time=at, block_hasher=hasher)

    def output(self, names: list[str], sampled: list[list[int]]) -> Any:
        return self._output(
            req_ids=names, req_id_to_index={name: place for place, name in enumerate(names)},
            sampled_token_ids=sampled, logprobs=None, prompt_logprobs_dict={}, pooler_output=[],
        )  # fmt: skip


def lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def main(settings: Path, outcomes: Path) -> None:
    """Runs what has no outcome yet, one after the other."""
    folder = outcomes.parent / ".tiny-model"
    folder.mkdir(exist_ok=True)
    vllm = Vllm(folder)
    known = {each["name"] for each in lines(outcomes)}
    for setting in lines(settings):
        if setting["name"] in known:
            continue
        found = Clock(vllm, setting).run()
        with outcomes.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

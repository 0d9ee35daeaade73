"""`PrefillEngine`: tokens in, logits or hidden states out, with a trace and measured figures."""

from estream_lab.engine.head import log_softmax as log_softmax
from estream_lab.engine.memory import MemoryPlan as MemoryPlan
from estream_lab.engine.prefill import PrefillEngine as PrefillEngine
from estream_lab.engine.result import PrefillResult as PrefillResult
from estream_lab.engine.settings import EngineSettings as EngineSettings

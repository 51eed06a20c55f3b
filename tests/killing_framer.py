"""A framer of which one image ends the process, as a fault in a decoder can."""

from __future__ import annotations

import os
import signal

from uol.images.framing import Framer


class KillingFramer(Framer):
    def frame(self, file, all_faces=False):
        if str(file) == "killer":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().frame(file, all_faces)

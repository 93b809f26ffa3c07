# SPDX-License-Identifier: GPL-2.0-or-later
"""chromium-headless-shell, with a renderer for each site."""

import os
import shutil
import signal
import subprocess
import threading

from programs.run import PATIENCE, Failed, scratch, start


CHROMIUM_PAGE = """<!doctype html><title>waiting</title><p id=p></p>%s<script>
let words = [];
for (let i = 0; i < 3000; i++) words.push((i * 2654435761 %% 65536).toString(36));
words.sort().reverse();
document.getElementById("p").textContent = JSON.stringify(words).length + " " + /z[0-9]+/.exec(words.join(" "));
fetch("/done");
</script>"""


def chromium():
    """Headless, a page and three frames of other sites, each in a renderer of its own."""
    import http.server

    binary = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if not binary:
        raise Failed("chromium-headless-shell: not here; is it installed?")
    root = scratch("chromium")
    done = threading.Semaphore(0)
    sites = ["main.test", "a.test", "b.test", "c.test"]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            site = (self.headers["Host"] or "").split(":")[0]
            if self.path == "/done":
                done.release()
                body = b""
            else:
                port = self.server.server_address[1]
                frames = "".join(f'<iframe src="http://{s}:{port}/"></iframe>' for s in sites[1:])
                body = (CHROMIUM_PAGE % (frames if site == sites[0] else "")).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    process = start([
        binary, "--headless", "--no-sandbox", "--site-per-process", "--disable-gpu",
        "--disable-dev-shm-usage", "--host-resolver-rules=MAP *.test 127.0.0.1", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-hang-monitor",
        f"--user-data-dir={root}", "--remote-debugging-port=9222",
        f"http://{sites[0]}:{server.server_address[1]}/"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
        for i in range(len(sites)):
            if not done.acquire(timeout=PATIENCE * 2):
                raise Failed(f"chromium: only {i} of {len(sites)} sites were shown")
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        server.shutdown()

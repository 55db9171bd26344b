/* Drives an engine in memory for benchmarks/engine_throughput.py: no socket, no kernel, no Python in the loop. */
#include "xf.h"

/* Receives `count` copies of a frame, 8 at a time, `gap` ns a frame, and polls after each burst; returns how many frames
 * left. */
uint64_t drive(xf_engine *e, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t count, uint64_t gap,
               uint64_t *now) {
    xf_frame in[8], out[64];
    uint64_t sent = 0, i;
    uint32_t k;
    for (k = 0; k < 8; k++) {
        in[k].data = frame;
        in[k].length = length;
        in[k].port = port;
        in[k].time = 0;
    }
    for (i = 0; i < count; i += 8) {
        int n;
        *now += 8 * gap;
        xf_rx_burst(e, in, 8, *now);
        while ((n = xf_poll(e, *now, out, 64)) > 0) sent += (uint64_t)n;
    }
    return sent;
}

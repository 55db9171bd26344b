/* One look at an engine for the records: many counters in one call. */
#ifndef XF_SAMPLE_H
#define XF_SAMPLE_H

#include "xf.h"

/* A queue that holds something, or has lost its last packet since the look before. */
typedef struct xs_queue {
    uint32_t port, cls;
    uint64_t bytes, packets;
} xs_queue;

typedef struct xs_port {
    uint64_t tx_bytes, tx_packets, rx_bytes, rx_packets;
} xs_port;

/* Fills `counters` for each port and `dropped`, the packets that the engine has dropped in all. `previous` is a bit per
 * (port, class), kept by the caller. Returns the number of queues written, at most `room`. */
int xs_look(xf_engine *engine, const uint32_t *ports, uint32_t count, uint8_t *previous, xs_queue *queues,
            uint32_t room, xs_port *counters, uint64_t *dropped);

#endif

/* One look at an engine for the records (sample.h). */
#include "sample.h"

static uint32_t look_at_queues(xf_engine *engine, uint32_t port, uint8_t *previous, xs_queue *queues, uint32_t room) {
    uint32_t written = 0;
    uint8_t full = 0;
    for (uint32_t cls = 0; cls < XF_CLASSES; cls++) {
        xf_queue_stats stats;
        if (xf_queue_read(engine, port, cls, &stats) < 0)
            continue;
        if (stats.packets)
            full |= (uint8_t)(1u << cls);
        if ((stats.packets || *previous >> cls & 1) && written < room) {
            xs_queue *queue = &queues[written++];
            queue->port = port;
            queue->cls = cls;
            queue->bytes = stats.bytes;
            queue->packets = stats.packets;
        }
    }
    *previous = full;
    return written;
}

int xs_look(xf_engine *engine, const uint32_t *ports, uint32_t count, uint8_t *previous, xs_queue *queues,
            uint32_t room, xs_port *counters, uint64_t *dropped) {
    uint64_t packets[XF_DROP_REASONS], bytes[XF_DROP_REASONS];
    uint32_t written = 0;
    for (uint32_t i = 0; i < count; i++) {
        xf_port_stats stats;
        memset(&stats, 0, sizeof stats);
        xf_port_read(engine, ports[i], &stats);
        counters[i].tx_bytes = stats.tx_bytes;
        counters[i].tx_packets = stats.tx_packets;
        counters[i].rx_bytes = stats.rx_bytes;
        counters[i].rx_packets = stats.rx_packets;
        written += look_at_queues(engine, ports[i], &previous[i], queues + written, room - written);
    }
    xf_drops_read(engine, packets, bytes);
    *dropped = 0;
    for (uint32_t i = 0; i < XF_DROP_REASONS; i++)
        *dropped += packets[i];
    return (int)written;
}

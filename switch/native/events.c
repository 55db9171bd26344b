/* Events: a binary heap of (time, id) with each id at most once, so that an event can be moved or withdrawn.
 *
 * Ties go to the lower id: by kind first, then by port, which makes runs repeatable. */
#include "engine.h"

static int before(xf_event_item a, xf_event_item b) { return a.time != b.time ? a.time < b.time : a.id < b.id; }

static void put(xf_events *h, uint32_t at, xf_event_item item) {
    h->heap[at] = item;
    h->place[item.id] = (uint16_t)(at + 1);
}

static void up(xf_events *h, uint32_t at, xf_event_item item) {
    while (at) {
        uint32_t parent = (at - 1) / 2;
        if (!before(item, h->heap[parent])) break;
        put(h, at, h->heap[parent]);
        at = parent;
    }
    put(h, at, item);
}

static void down(xf_events *h, uint32_t at, xf_event_item item) {
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= h->count) break;
        if (child + 1 < h->count && before(h->heap[child + 1], h->heap[child])) child++;
        if (!before(h->heap[child], item)) break;
        put(h, at, h->heap[child]);
        at = child;
    }
    put(h, at, item);
}

void events_set(xf_events *h, uint32_t id, xf_ps time) {
    uint32_t at = h->place[id];
    xf_event_item item = {time, id};
    if (time == XF_NEVER) {
        xf_event_item last;
        if (!at) return;
        h->place[id] = 0;
        last = h->heap[--h->count];
        if (last.id == id) return;
        at--;
        if (at && before(last, h->heap[(at - 1) / 2])) up(h, at, last);
        else down(h, at, last);
        return;
    }
    if (!at) up(h, h->count++, item);
    else if (time < h->heap[at - 1].time) up(h, at - 1, item);
    else if (time > h->heap[at - 1].time) down(h, at - 1, item);
}

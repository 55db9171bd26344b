/* The packet loop: AF_PACKET sockets of many engines, one epoll set, one thread, no GIL.
 *
 * One turn: wait for sockets or for the nearest deadline, read CLOCK_MONOTONIC once, give every ready socket's frames
 * to its engine, then poll every engine that received something, was woken by a control thread or is due, and send
 * what it hands out. The turn holds the loop's lock, so that adding and removing devices needs no further care; the
 * thread lets go of it while it waits and whenever somebody asks (`waiting`).
 *
 * Sockets are numbered slots; an epoll event carries slot and generation, so that one that was fetched before its
 * port was removed is recognised. */
#include "atomic.h"
#include "loop.h"
#include "guard.h"
#include "posix.h"

#define BATCH 64
#define EVENTS 64
#define HEADROOM 4       /* for the VLAN tag that the kernel has taken out of the frame */
#define FRAME_BYTES 9248 /* 9216-byte packets with Ethernet header and two tags */
#define MAX_SLOTS 16384
#define WAKE_EVENT UINT64_MAX
#define TIMER_EVENT (UINT64_MAX - 1)
#define NS_PER_S 1000000000ull

struct slot {
    int fd; /* -1: free */
    int device;
    uint32_t port, generation;
    xl_port_stats stats; /* atomic words */
};

/* The far end of a link that does not leave the process (xl_link). */
struct peer {
    int device; /* -1: none */
    uint32_t port;
};

struct device {
    xf_engine *engine; /* atomic; NULL: free */
    uint64_t deadline;
    int dirty;    /* received or was woken since it was polled */
    int crashed;  /* its engine has, which was announced; nothing is given to it any more */
    int notified; /* its pending work was announced and not taken yet; atomic, written under events_lock */
    uint64_t unattached_packets, unattached_bytes; /* atomic; sent to a port that has no socket */
    int slots[XF_MAX_PORTS];                       /* atomic */
    struct peer peers[XF_MAX_PORTS];
};

struct xl_loop {
    xf_mutex lock; /* everything below but what says otherwise */
    xf_mutex events_lock;
    int epoll, wake, timer, events;
    int stop, waiting;         /* atomic; `waiting` is written under events_lock */
    int woken[XL_MAX_DEVICES]; /* atomic */
    int running, no_pwait2;
    int handed; /* frames went to another device in memory: it may have to be polled again */
    pthread_t thread;
    uint64_t timer_set;
    struct device *devices[XL_MAX_DEVICES]; /* never freed while the loop lives */
    int device_count;                       /* atomic */
    struct slot *slots;
    int slot_count;
    struct epoll_event ready[EVENTS];
    struct mmsghdr messages[BATCH];
    struct iovec vectors[BATCH];
    union {
        struct cmsghdr header;
        uint8_t bytes[64];
    } control[BATCH];
    xf_frame frames[BATCH];
    uint8_t buffers[BATCH][FRAME_BYTES + HEADROOM + 4];
};

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* A control thread's way to the lock: the loop's thread gives way as long as somebody waits. */
static void control_lock(xl_loop *loop) {
    pthread_mutex_lock(&loop->events_lock);
    atomic_add(&loop->waiting, 1);
    pthread_mutex_unlock(&loop->events_lock);
    uint64_t one = 1;
    write(loop->wake, &one, sizeof one);
    pthread_mutex_lock(&loop->lock);
}

static void control_unlock(xl_loop *loop) {
    pthread_mutex_unlock(&loop->lock);
    pthread_mutex_lock(&loop->events_lock);
    atomic_add(&loop->waiting, -1);
    pthread_mutex_unlock(&loop->events_lock);
}

/* ---- what control threads shall look at ---- */

static void announce(xl_loop *loop, struct device *device) {
    uint64_t one = 1;
    if (atomic_get(&device->notified))
        return;
    pthread_mutex_lock(&loop->events_lock);
    atomic_set(&device->notified, 1);
    pthread_mutex_unlock(&loop->events_lock);
    write(loop->events, &one, sizeof one);
}

/* Its sockets stay with their owner, unread. */
static void device_crashed(xl_loop *loop, struct device *device) {
    struct epoll_event event = {0, 0};
    device->crashed = 1;
    device->deadline = XF_NEVER;
    for (int port = 0; port < XF_MAX_PORTS; port++)
        if (device->slots[port] >= 0)
            epoll_ctl(loop->epoll, EPOLL_CTL_DEL, loop->slots[device->slots[port]].fd, &event);
    announce(loop, device);
}

/* ---- receiving ---- */

static void give(xl_loop *loop, struct device *device, const xf_frame *frames, uint32_t count, uint64_t now) {
    if (device->crashed)
        return;
    if (xf_rx_burst_guarded(device->engine, frames, count, now) == XF_ECRASHED)
        device_crashed(loop, device);
    device->dirty = 1;
}

/* The kernel takes an outer VLAN tag out of the frame and says so beside it; put it back. */
static uint8_t *restore_tag(struct msghdr *message, uint8_t *frame, unsigned *length) {
    if (message->msg_controllen < sizeof(struct cmsghdr) + sizeof(struct tpacket_auxdata))
        return frame;
    struct cmsghdr *header = message->msg_control;
    if (header->cmsg_level != SOL_PACKET || header->cmsg_type != PACKET_AUXDATA)
        return frame;
    struct tpacket_auxdata *aux = (struct tpacket_auxdata *)(header + 1);
    if (!(aux->tp_status & TP_STATUS_VLAN_VALID) || *length < 12)
        return frame;
    uint16_t tpid = aux->tp_status & TP_STATUS_VLAN_TPID_VALID ? aux->tp_vlan_tpid : 0x8100;
    frame -= HEADROOM;
    memmove(frame, frame + HEADROOM, 12);
    frame[12] = (uint8_t)(tpid >> 8);
    frame[13] = (uint8_t)tpid;
    frame[14] = (uint8_t)(aux->tp_vlan_tci >> 8);
    frame[15] = (uint8_t)aux->tp_vlan_tci;
    *length += HEADROOM;
    return frame;
}

/* What the engines make good of a stall of this thread; headroom is planned for twice as much (docs/architecture.md). */
#define CATCH_UP_NS 10000000ull

static void receive(xl_loop *loop, struct slot *slot, uint64_t now) {
    for (int i = 0; i < BATCH; i++) {
        loop->messages[i].msg_hdr.msg_controllen = sizeof loop->control[i];
        loop->messages[i].msg_hdr.msg_flags = 0;
    }
    int count = recvmmsg(slot->fd, loop->messages, BATCH, MSG_DONTWAIT, NULL);
    if (count < 0) {
        int error = *__errno_location();
        if (error == ENETDOWN)
            atomic_add(&slot->stats.downs, 1); /* reported once; the socket works again when the interface is back */
        else if (error != EAGAIN && error != EINTR)
            atomic_add(&slot->stats.rx_errors, 1);
        return;
    }
    uint32_t taken = 0;
    for (int i = 0; i < count; i++) {
        struct msghdr *message = &loop->messages[i].msg_hdr;
        unsigned length = loop->messages[i].msg_len;
        if (message->msg_flags & MSG_TRUNC) {
            atomic_add(&slot->stats.rx_oversize, 1);
            continue;
        }
        uint8_t *frame = restore_tag(message, loop->buffers[i] + HEADROOM, &length);
        loop->frames[taken].data = frame;
        loop->frames[taken].length = length;
        loop->frames[taken].port = slot->port;
        taken++;
    }
    atomic_add(&slot->stats.rx_packets, (uint64_t)count);
    atomic_add(&slot->stats.rx_batches, 1);
    struct device *device = loop->devices[slot->device];
    if (taken)
        give(loop, device, loop->frames, taken, now);
}

/* ---- sending ---- */

static void count_unsent(struct slot *slot, uint32_t length, int error) {
    if (error == EMSGSIZE) {
        atomic_add(&slot->stats.tx_mtu, 1);
        atomic_add(&slot->stats.tx_mtu_bytes, length);
    } else if (error == ENETDOWN || error == ENXIO || error == ENODEV) {
        atomic_add(&slot->stats.tx_down, 1);
        atomic_add(&slot->stats.tx_down_bytes, length);
    } else {
        atomic_add(&slot->stats.tx_kernel, 1);
        atomic_add(&slot->stats.tx_kernel_bytes, length);
    }
}

/* Send the messages [0, count) of one port; a frame that cannot be sent is counted and the next one tried. */
static void send_messages(struct slot *slot, struct mmsghdr *messages, int count) {
    int done = 0;
    while (done < count) {
        int sent = sendmmsg(slot->fd, messages + done, (unsigned)(count - done), MSG_DONTWAIT);
        if (sent > 0) {
            atomic_add(&slot->stats.tx_packets, (uint64_t)sent);
            done += sent;
            continue;
        }
        int error = *__errno_location();
        if (error == EINTR)
            continue;
        count_unsent(slot, (uint32_t)messages[done].msg_hdr.msg_iov->iov_len, error);
        done++;
    }
}

/* The engine copies the bytes, which belong to the sender until it is polled again. */
static void hand_over(xl_loop *loop, struct peer peer, const struct iovec *vectors, int count, uint64_t now) {
    struct device *device = loop->devices[peer.device];
    xf_frame frames[BATCH];
    for (int i = 0; i < count; i++) {
        frames[i].data = vectors[i].iov_base;
        frames[i].length = (uint32_t)vectors[i].iov_len;
        frames[i].port = peer.port;
    }
    give(loop, device, frames, (uint32_t)count, now);
    loop->handed = 1;
}

static void transmit(xl_loop *loop, struct device *device, const xf_frame *frames, int count, uint64_t now) {
    static struct mmsghdr zero;
    struct mmsghdr messages[BATCH];
    struct iovec vectors[BATCH];
    uint8_t taken[BATCH];
    memset(taken, 0, sizeof taken);
    for (int first = 0; first < count; first++) {
        if (taken[first])
            continue;
        uint32_t port = frames[first].port;
        int number = 0;
        for (int i = first; i < count; i++) {
            if (frames[i].port != port)
                continue;
            taken[i] = 1;
            vectors[number].iov_base = (void *)frames[i].data;
            vectors[number].iov_len = frames[i].length;
            messages[number] = zero;
            messages[number].msg_hdr.msg_iov = &vectors[number];
            messages[number].msg_hdr.msg_iovlen = 1;
            number++;
        }
        int slot = port < XF_MAX_PORTS ? device->slots[port] : -1;
        if (slot >= 0) {
            send_messages(&loop->slots[slot], messages, number);
        } else if (port < XF_MAX_PORTS && device->peers[port].device >= 0 &&
                   !loop->devices[device->peers[port].device]->crashed) {
            hand_over(loop, device->peers[port], vectors, number, now);
        } else {
            for (int i = 0; i < number; i++)
                atomic_add(&device->unattached_bytes, vectors[i].iov_len);
            atomic_add(&device->unattached_packets, (uint64_t)number);
        }
    }
}

static void serve(xl_loop *loop, int number, uint64_t now) {
    struct device *device = loop->devices[number];
    xf_frame frames[BATCH];
    int count;
    do {
        count = xf_poll_guarded(device->engine, now, frames, BATCH);
        if (count == XF_ECRASHED) {
            device_crashed(loop, device);
            break;
        }
        if (count > 0)
            transmit(loop, device, frames, count, now);
    } while (count == BATCH && !loop->handed); /* frames may come back for ever; the other devices have their turn */
    device->dirty = 0;
    if (device->crashed)
        return;
    device->deadline = xf_deadline(device->engine);
    if (xf_pending(device->engine))
        announce(loop, device);
}

/* ---- one turn ---- */

static int wait_ready(xl_loop *loop, uint64_t deadline) {
    if (deadline == XF_NEVER)
        return epoll_wait(loop->epoll, loop->ready, EVENTS, -1);
    uint64_t now = clock_ns();
    uint64_t left = deadline > now ? deadline - now : 0;
    if (left == 0)
        return epoll_wait(loop->epoll, loop->ready, EVENTS, 0);
    if (!loop->no_pwait2) {
        struct timespec time = {(int64_t)(left / NS_PER_S), (int64_t)(left % NS_PER_S)};
        int count = (int)syscall(SYS_epoll_pwait2, loop->epoll, loop->ready, EVENTS, &time, NULL, (size_t)0);
        if (count >= 0 || *__errno_location() != ENOSYS)
            return count;
        loop->no_pwait2 = 1; /* Linux before 5.11: a timer in the epoll set does it */
    }
    if (deadline != loop->timer_set) {
        struct itimerspec time = {{0, 0}, {(int64_t)(deadline / NS_PER_S), (int64_t)(deadline % NS_PER_S)}};
        timerfd_settime(loop->timer, TFD_TIMER_ABSTIME, &time, NULL);
        loop->timer_set = deadline;
    }
    return epoll_wait(loop->epoll, loop->ready, EVENTS, -1);
}

#define PASSES 8 /* through all devices in one turn, while links in memory carry frames on */

/* Polls the devices that have something to do; returns the nearest deadline. */
static uint64_t serve_all(xl_loop *loop, uint64_t now) {
    uint64_t nearest = XF_NEVER;
    for (int i = 0; i < loop->device_count; i++) {
        struct device *device = loop->devices[i];
        if (!device || !device->engine || device->crashed)
            continue;
        if (atomic_get(&loop->woken[i])) {
            atomic_set(&loop->woken[i], 0);
            device->dirty = 1;
        }
        if (device->dirty || device->deadline <= now)
            serve(loop, i, now);
        if (device->deadline < nearest)
            nearest = device->deadline;
    }
    return nearest;
}

static uint64_t turn(xl_loop *loop, int count) {
    uint64_t now = clock_ns();
    for (int i = 0; i < count; i++) {
        uint64_t data = loop->ready[i].data;
        if (data == WAKE_EVENT || data == TIMER_EVENT) {
            uint64_t value;
            read(data == WAKE_EVENT ? loop->wake : loop->timer, &value, sizeof value);
            continue;
        }
        struct slot *slot = &loop->slots[data & 0xffffffff];
        if (slot->fd >= 0 && slot->generation == data >> 32)
            receive(loop, slot, now);
    }
    uint64_t nearest;
    int passes = PASSES;
    do {
        loop->handed = 0;
        nearest = serve_all(loop, now);
    } while (loop->handed && --passes);
    return loop->handed ? now : nearest;
}

static void *run(void *argument) {
    xl_loop *loop = argument;
    struct timespec pause = {0, 20000};
    uint64_t deadline = 0;
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul); /* the default rounds every wait up by 50 us */
    while (!atomic_get(&loop->stop)) {
        int count = wait_ready(loop, deadline);
        while (atomic_get(&loop->waiting) && !atomic_get(&loop->stop))
            nanosleep(&pause, NULL);
        pthread_mutex_lock(&loop->lock);
        deadline = turn(loop, count > 0 ? count : 0);
        pthread_mutex_unlock(&loop->lock);
    }
    return NULL;
}

/* ---- control ---- */

static int watch(xl_loop *loop, int fd, uint64_t data) {
    struct epoll_event event = {EPOLLIN, data};
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event);
}

xl_loop *xl_new(void) {
    xl_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    loop->slots = calloc(MAX_SLOTS, sizeof *loop->slots);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->events = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (!loop->slots || loop->epoll < 0 || loop->wake < 0 || loop->events < 0 || loop->timer < 0 ||
        watch(loop, loop->wake, WAKE_EVENT) < 0 || watch(loop, loop->timer, TIMER_EVENT) < 0) {
        xl_free(loop);
        return NULL;
    }
    for (int i = 0; i < BATCH; i++) {
        loop->vectors[i].iov_base = loop->buffers[i] + HEADROOM;
        loop->vectors[i].iov_len = FRAME_BYTES;
        loop->messages[i].msg_hdr.msg_iov = &loop->vectors[i];
        loop->messages[i].msg_hdr.msg_iovlen = 1;
        loop->messages[i].msg_hdr.msg_control = &loop->control[i];
    }
    return loop;
}

void xl_free(xl_loop *loop) {
    if (loop->running) {
        uint64_t one = 1;
        atomic_set(&loop->stop, 1);
        write(loop->wake, &one, sizeof one);
        pthread_join(loop->thread, NULL);
    }
    int fds[] = {loop->epoll, loop->wake, loop->events, loop->timer};
    for (int i = 0; i < 4; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    for (int i = 0; i < loop->device_count; i++)
        free(loop->devices[i]);
    free(loop->slots);
    free(loop);
}

int xl_start(xl_loop *loop) {
    if (loop->running)
        return 0;
    if (xf_guard())
        return XF_ENOMEM;
    if (pthread_create(&loop->thread, NULL, run, loop) != 0)
        return XF_ENOMEM;
    loop->running = 1;
    pthread_setname_np(loop->thread, "xoff-packets");
    return 0;
}

int xl_device_add(xl_loop *loop, xf_engine *engine) {
    int number = 0;
    control_lock(loop);
    while (number < loop->device_count && loop->devices[number]->engine)
        number++;
    if (number == XL_MAX_DEVICES) {
        number = XF_EFULL;
    } else {
        if (number == loop->device_count)
            loop->devices[number] = calloc(1, sizeof(struct device));
        struct device *device = loop->devices[number];
        if (!device) {
            number = XF_ENOMEM;
        } else {
            xf_catch_up(engine, CATCH_UP_NS);
            device->dirty = 1;
            device->crashed = 0;
            device->deadline = XF_NEVER;
            atomic_put(&device->unattached_packets, 0);
            atomic_put(&device->unattached_bytes, 0);
            for (int i = 0; i < XF_MAX_PORTS; i++) {
                atomic_put(&device->slots[i], -1);
                device->peers[i].device = -1;
            }
            pthread_mutex_lock(&loop->events_lock);
            atomic_set(&device->notified, 0);
            pthread_mutex_unlock(&loop->events_lock);
            atomic_set(&device->engine, engine);
            if (number == loop->device_count)
                atomic_set(&loop->device_count, number + 1);
        }
    }
    control_unlock(loop);
    return number;
}

static struct device *find_device(xl_loop *loop, int number) {
    if (number < 0 || number >= atomic_get(&loop->device_count) || !atomic_get(&loop->devices[number]->engine))
        return NULL;
    return loop->devices[number];
}

static void drop_port(xl_loop *loop, struct device *device, uint32_t port) {
    struct slot *slot = &loop->slots[device->slots[port]];
    struct epoll_event event = {0, 0};
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, slot->fd, &event);
    slot->fd = -1;
    slot->generation++;
    atomic_set(&device->slots[port], -1);
}

int xl_device_remove(xl_loop *loop, int number) {
    control_lock(loop);
    struct device *device = find_device(loop, number);
    if (device) {
        for (uint32_t port = 0; port < XF_MAX_PORTS; port++)
            if (device->slots[port] >= 0)
                drop_port(loop, device, port);
        for (int i = 0; i < loop->device_count; i++)
            for (uint32_t port = 0; port < XF_MAX_PORTS; port++)
                if (loop->devices[i]->peers[port].device == number)
                    loop->devices[i]->peers[port].device = -1;
        atomic_set(&device->engine, NULL);
    }
    control_unlock(loop);
    return device ? 0 : XF_ENOENT;
}

int xl_link(xl_loop *loop, int a, uint32_t a_port, int b, uint32_t b_port) {
    int result = 0;
    control_lock(loop);
    struct device *from = find_device(loop, a), *to = find_device(loop, b);
    if (!from || !to || a_port >= XF_MAX_PORTS || b_port >= XF_MAX_PORTS) {
        result = XF_ENOENT;
    } else if (from->slots[a_port] >= 0 || to->slots[b_port] >= 0 || from->peers[a_port].device >= 0 ||
               to->peers[b_port].device >= 0) {
        result = XF_EEXIST;
    } else {
        from->peers[a_port] = (struct peer){b, b_port};
        to->peers[b_port] = (struct peer){a, a_port};
    }
    control_unlock(loop);
    return result;
}

static void zero_stats(xl_port_stats *stats) {
    uint64_t *words = (uint64_t *)stats;
    for (size_t i = 0; i < sizeof *stats / sizeof *words; i++)
        atomic_put(&words[i], 0);
}

int xl_port_add(xl_loop *loop, int number, uint32_t port, int fd) {
    int result = 0;
    control_lock(loop);
    struct device *device = find_device(loop, number);
    if (!device || port >= XF_MAX_PORTS) {
        result = XF_ENOENT;
    } else if (device->slots[port] >= 0) {
        result = XF_EEXIST;
    } else {
        int index = 0;
        while (index < loop->slot_count && loop->slots[index].fd >= 0)
            index++;
        if (index == MAX_SLOTS) {
            result = XF_EFULL;
        } else {
            struct slot *slot = &loop->slots[index];
            if (index == loop->slot_count)
                loop->slot_count++;
            slot->fd = fd;
            slot->device = number;
            slot->port = port;
            zero_stats(&slot->stats);
            if (watch(loop, fd, (uint64_t)slot->generation << 32 | (uint32_t)index) < 0) {
                slot->fd = -1;
                result = XF_EINVAL;
            } else {
                atomic_set(&device->slots[port], index);
            }
        }
    }
    control_unlock(loop);
    return result;
}

int xl_port_remove(xl_loop *loop, int number, uint32_t port) {
    int result = XF_ENOENT;
    control_lock(loop);
    struct device *device = find_device(loop, number);
    if (device && port < XF_MAX_PORTS && device->slots[port] >= 0) {
        drop_port(loop, device, port);
        result = 0;
    }
    control_unlock(loop);
    return result;
}

void xl_wake(xl_loop *loop, int device) {
    uint64_t one = 1;
    if (device >= 0 && device < XL_MAX_DEVICES)
        atomic_set(&loop->woken[device], 1);
    write(loop->wake, &one, sizeof one);
}

int xl_event_fd(xl_loop *loop) {
    return loop->events;
}

int xl_pending_take(xl_loop *loop, int *devices, int room) {
    int count = 0;
    pthread_mutex_lock(&loop->events_lock);
    int known = atomic_get(&loop->device_count);
    for (int i = 0; i < known && count < room; i++) {
        if (atomic_get(&loop->devices[i]->notified)) {
            atomic_set(&loop->devices[i]->notified, 0);
            devices[count++] = i;
        }
    }
    pthread_mutex_unlock(&loop->events_lock);
    return count;
}

/* Counters are read without the lock: devices and slots are never freed while the loop lives, a counter is one word,
 * and a sampler that took the lock would hold up the packets. */
int xl_port_read(xl_loop *loop, int number, uint32_t port, xl_port_stats *out) {
    struct device *device = find_device(loop, number);
    int slot = device && port < XF_MAX_PORTS ? atomic_get(&device->slots[port]) : -1;
    if (slot < 0)
        return XF_ENOENT;
    const uint64_t *from = (const uint64_t *)&loop->slots[slot].stats;
    for (size_t i = 0; i < sizeof *out / sizeof *from; i++)
        ((uint64_t *)out)[i] = atomic_peek(&from[i]);
    return 0;
}

int xl_unattached_read(xl_loop *loop, int number, uint64_t *packets_bytes) {
    struct device *device = find_device(loop, number);
    if (!device)
        return XF_ENOENT;
    packets_bytes[0] = atomic_peek(&device->unattached_packets);
    packets_bytes[1] = atomic_peek(&device->unattached_bytes);
    return 0;
}

void xl_losses(xl_loop *loop, int number, const uint32_t *ports, uint32_t count, uint64_t *packets) {
    for (uint32_t i = 0; i < count; i++) {
        xl_port_stats own = {0};
        xl_port_read(loop, number, ports[i], &own);
        packets[i] = own.rx_oversize + own.tx_kernel + own.tx_mtu + own.tx_down;
    }
}

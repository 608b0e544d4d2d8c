// A program for UEFI firmware, with what it needs of the UEFI specification 2.10. From a medium it
// copies the file system that it was started from onto the first drive, makes a boot entry for it,
// and switches the machine off. From a drive it has the machine begin anew the first time, and then
// waits for the power button. It tells of it on the first serial port.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { u32 a; u16 b, c; u8 d[8]; } guid;

struct media { u32 id; u8 removable, present, partition, read_only, caching; u32 block, align; u64 last; };
struct block_io {
	u64 revision;
	struct media *media;
	void *reset;
	u64 (*read)(struct block_io *, u32, u64, u64, void *);
	u64 (*write)(struct block_io *, u32, u64, u64, void *);
	u64 (*flush)(struct block_io *);
};
struct loaded { u32 revision; void *parent, *system, *device, *path, *reserved; u32 size; u8 *options; };
struct boot {
	u8 header[24];
	void *tpl[2], *memory[5], *events[6], *install[3];
	u64 (*handle_protocol)(void *, guid *, void **);
	void *reserved, *notify;
	u64 (*locate_handle)(int, guid *, void *, u64 *, void **);
	void *more[9];
	u64 (*watchdog)(u64, u64, u64, void *);
};
struct runtime {
	u8 header[24];
	void *time[4], *virtual[2];
	u64 (*get)(u16 *, guid *, u32 *, u64 *, void *);
	void *next;
	u64 (*set)(u16 *, guid *, u32, u64, void *);
	void *count;
	void (*reset)(int, u64, u64, void *);
};
struct system { u8 header[24]; u16 *vendor; u32 revision; void *console[6]; struct runtime *runtime; struct boot *boot; };

static guid block_guid = {0x964e5b21, 0x6459, 0x11d2, {0x8e, 0x39, 0x00, 0xa0, 0xc9, 0x69, 0x72, 0x3b}};
static guid image_guid = {0x5b1b31a1, 0x9562, 0x11d2, {0x8e, 0x3f, 0x00, 0xa0, 0xc9, 0x69, 0x72, 0x3b}};
static guid path_guid = {0x09576e91, 0x6d3f, 0x11d2, {0x8e, 0x39, 0x00, 0xa0, 0xc9, 0x69, 0x72, 0x3b}};
static guid own_guid = {0x51159a01, 0x1ab0, 0x4d01, {0x9a, 0x3e, 0x5e, 0x1d, 0x00, 0x00, 0x00, 0x01}};
static guid global_guid = {0x8be4df61, 0x93ca, 0x11d2, {0xaa, 0x0d, 0x00, 0xe0, 0x98, 0x03, 0x2b, 0x8c}};

static void out8(u16 port, u8 v) { __asm__ volatile("outb %0, %1" : : "a"(v), "Nd"(port)); }
static void out16(u16 port, u16 v) { __asm__ volatile("outw %0, %1" : : "a"(v), "Nd"(port)); }
static u8 in8(u16 port) { u8 v; __asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port)); return v; }
static u16 in16(u16 port) { u16 v; __asm__ volatile("inw %1, %0" : "=a"(v) : "Nd"(port)); return v; }

static void say_bytes(const u8 *text, u64 n) {
	for (; n && *text; n--, text++) {
		while (!(in8(0x3f8 + 5) & 0x20)) {}
		out8(0x3f8, *text);
	}
}
static void say(const char *text) { say_bytes((const u8 *)text, 1000); }

static u8 buffer[64 << 10];
static void *handles[64];

// drive is the first whole drive that can be written.
static struct block_io *drive(struct boot *b, void **handle) {
	u64 size = sizeof handles;
	if (b->locate_handle(2, &block_guid, 0, &size, handles)) return 0;
	for (u64 i = 0; i < size / sizeof *handles; i++) {
		struct block_io *d;
		if (b->handle_protocol(handles[i], &block_guid, (void **)&d)) continue;
		if (d->media->present && !d->media->partition && !d->media->read_only && !d->media->removable && d->media->last > 1000) {
			*handle = handles[i];
			return d;
		}
	}
	return 0;
}

static u64 copy(struct block_io *from, struct block_io *to) {
	u64 bytes = (from->media->last + 1) * from->media->block;
	for (u64 at = 0; at < bytes; at += sizeof buffer) {
		u64 n = bytes - at < sizeof buffer ? bytes - at : sizeof buffer;
		u64 err = from->read(from, from->media->id, at / from->media->block, n, buffer);
		if (!err) err = to->write(to, to->media->id, at / to->media->block, n, buffer);
		if (err) return err;
	}
	return to->flush(to);
}

static u8 *put(u8 *to, const void *from, u64 n) {
	for (const u8 *f = from; n; n--) *to++ = *f++;
	return to;
}

// entry makes Boot00AA of a drive, first in the order.
static u64 entry(struct system *s, void *on) {
	static const u16 file[] = L"\\EFI\\BOOT\\BOOTX64.EFI";
	static const u8 head[4] = {4, 4, sizeof file + 4, 0}, end[4] = {0x7f, 0xff, 4, 0};
	u8 *path, *p = buffer;
	if (s->boot->handle_protocol(on, &path_guid, (void **)&path)) return 1;
	u64 n = 0;
	while (path[n] != 0x7f) n += path[n + 2] | path[n + 3] << 8;
	u32 active = 1;
	u16 length = n + sizeof head + sizeof file + sizeof end;
	p = put(p, &active, 4);
	p = put(p, &length, 2);
	p = put(p, L"Lab", 8);
	p = put(p, path, n);
	p = put(p, head, sizeof head);
	p = put(p, file, sizeof file);
	p = put(p, end, sizeof end);
	p = put(p, " BY ENTRY", 9);
	u64 err = s->runtime->set(L"Boot00AA", &global_guid, 7, p - buffer, buffer);
	if (err) return err;
	u16 *order = (u16 *)buffer;
	order[0] = 0xaa;
	n = sizeof buffer - 2;
	if (s->runtime->get(L"BootOrder", &global_guid, 0, &n, order + 1)) n = 0;
	return s->runtime->set(L"BootOrder", &global_guid, 7, n + 2, buffer);
}

__attribute__((section(".first"))) u64 start(void *image, struct system *s) {
	struct loaded *me;
	struct block_io *from, *to;
	void *on;
	s->boot->watchdog(0, 0, 0, 0);
	if (s->boot->handle_protocol(image, &image_guid, (void **)&me) || s->boot->handle_protocol(me->device, &block_guid, (void **)&from)) {
		say("\nLOST\n");
		return 1;
	}
	if (from->media->read_only) {
		say("\nMEDIUM RUNS\n");
		to = drive(s->boot, &on);
		if (!to || copy(from, to)) say("NO DRIVE\n");
		else if (entry(s, on)) say("NO ENTRY\n");
		else {
			say("INSTALLED\n");
			s->runtime->reset(2, 0, 0, 0);
		}
		for (;;) {}
	}
	// The power button, and the switch, as ICH9 has them where QEMU's firmware puts them (ACPI 4.8.3).
	// A button that is pressed before that is not seen, so nothing is told before it.
	out16(0x602, 0x100);
	say("\nDISK RUNS");
	if (me->size) say_bytes(me->options, me->size);
	say("\n");
	u64 n = 1;
	if (s->runtime->get(L"LabBegan", &own_guid, 0, &n, buffer)) {
		say(s->runtime->set(L"LabBegan", &own_guid, 7, 1, "x") ? "FORGETFUL\n" : "BEGINS ANEW\n");
		s->runtime->reset(0, 0, 0, 0);
	}
	while (!(in16(0x600) & 0x100)) {}
	say("BUTTON\n");
	s->runtime->reset(2, 0, 0, 0);
	for (;;) {}
}

package erase

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/slipway-gitops/slipway/engine/item"
)

func uintptrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// The structures are those of the kernel's headers, on all machines with 64 bits.
func TestStructures(t *testing.T) {
	if n := unsafe.Sizeof(passthru{}); n != 72 {
		t.Errorf("struct nvme_passthru_cmd has 72 bytes, and here %d", n)
	}
	if n := unsafe.Sizeof(sgHeader{}); n != 88 {
		t.Errorf("struct sg_io_hdr has 88 bytes, and here %d", n)
	}
	if at := unsafe.Offsetof(sgHeader{}.status); at != 64 {
		t.Errorf("the status is at 64, and here at %d", at)
	}
}

// erased erases a fake disk in a bubble.
func erased(t *testing.T, f *fake, name string, check func(t *testing.T, e item.Erasure)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := item.Disk{Name: name, Serial: "S1", Bytes: fakeBytes, Sector: 512}
		e := Disk(t.Context(), f, d, nil)
		if e.Done && f.holdsSecret() {
			t.Errorf("it was called erased by %s and holds what it held", e.Last().Method)
		}
		if e.Done && (e.Last().Verified == "" || e.Last().Why != "") || !e.Done && e.Last().Why == "" {
			t.Errorf("the report is %+v", e)
		}
		check(t, e)
	})
}

// The strongest method that a disk has is the one that is taken, and what is said of it is what
// was seen. A method that fails or lies is followed by the next one, and the report says why.
func TestMethods(t *testing.T) {
	nvme := func(change func(*fake)) *fake {
		f := newFake()
		f.nvme = newNVMe()
		if change != nil {
			change(f)
		}
		return f
	}
	ata := func(change func(*fake)) *fake {
		f := newFake()
		f.ata = newATA()
		if change != nil {
			change(f)
		}
		return f
	}
	for name, c := range map[string]struct {
		fake   *fake
		disk   string
		method string   // that has erased it; empty for none
		sent   []string // by us, of the commands that erase
		why    string   // is in the reason of one of the tries before
		says   string   // is in what was verified
	}{
		"sanitize": {fake: nvme(nil), disk: "nvme0n1", method: "nvme sanitize, block erase", sent: []string{"sanitize 0a"},
			says: "the disk says that the sanitize succeeded, and 256 samples that were written all over the disk before are gone"},
		"sanitize by its key": {fake: nvme(func(f *fake) { f.nvme.identify[328] = 1 }), disk: "nvme0n1", method: "nvme sanitize, crypto erase",
			sent: []string{"sanitize 0c"}, why: "SANICAP"},
		"no sanitize": {fake: nvme(func(f *fake) { f.nvme.identify[328] = 0 }), disk: "nvme0n1", method: "nvme format, user data erase", sent: []string{"format 1"}},
		"a sanitize under way after a reset": {fake: nvme(func(f *fake) {
			f.nvme.state, f.nvme.ends, f.nvme.after, f.nvme.cdw10 = sanitizing, time.Date(2000, 1, 1, 0, 20, 0, 0, time.UTC), sanitized, 0x0a
		}), disk: "nvme0n1", method: "nvme sanitize, block erase", sent: []string{"sanitize 0a"}},
		"a sanitize that failed before": {fake: nvme(func(f *fake) { f.nvme.state, f.nvme.cdw10 = sanitizeFailed, 0x02 }), disk: "nvme0n1",
			method: "nvme sanitize, block erase", sent: []string{"sanitize 0a", "sanitize 0a"}},
		"a sanitize that fails": {fake: nvme(func(f *fake) { f.nvme.once = true }), disk: "nvme0n1", method: "nvme sanitize, crypto erase",
			sent: []string{"sanitize 0a", "exit failure mode", "sanitize 0c"}, why: "the disk says that it failed"},
		"each sanitize fails": {fake: nvme(func(f *fake) { f.nvme.fails = true }), disk: "nvme0n1", method: "nvme format, user data erase", why: "the disk says that it failed"},
		"a liar": {fake: nvme(func(f *fake) { f.nvme.lies = true }), disk: "nvme0n1", method: "overwrite",
			why: "the disk says that it is done, and 256 of 256 samples are still on the disk"},
		"half a liar":                {fake: nvme(func(f *fake) { f.nvme.half = true }), disk: "nvme0n1", method: "overwrite", why: "samples are still on the disk"},
		"it tells of another one":    {fake: nvme(func(f *fake) { f.nvme.stale = true }), disk: "nvme0n1", method: "nvme format, user data erase", why: "reports another sanitize"},
		"it does nothing":            {fake: nvme(func(f *fake) { f.nvme.nothing = true }), disk: "nvme0n1", method: "nvme format, user data erase", why: "as if nothing had happened"},
		"never done":                 {fake: nvme(func(f *fake) { f.nvme.never = true }), disk: "nvme0n1", why: "the sanitize is not done after 14m0s, and cannot be stopped"},
		"silent while it goes on":    {fake: nvme(func(f *fake) { f.nvme.silent, f.nvme.took = true, time.Hour }), disk: "nvme0n1", why: "has not reported on its sanitize for 2m0s"},
		"a format that fails":        {fake: nvme(func(f *fake) { f.nvme.identify[328], f.nvme.formatFails = 0, true }), disk: "nvme0n1", method: "overwrite", why: "status 0x10a"},
		"another namespace":          {fake: nvme(func(f *fake) { f.nvme.others = []uint32{7} }), disk: "nvme0n1", method: "nvme format, user data erase", sent: []string{"format 1"}, why: "1 other namespaces of the same disk, which nobody approved (7 among them)"},
		"a format of all namespaces": {fake: nvme(func(f *fake) { f.nvme.others, f.nvme.identify[524] = []uint32{7}, 1<<2|1<<1 }), disk: "nvme0n1", method: "overwrite", why: "which nobody approved"},
		"other controllers":          {fake: nvme(func(f *fake) { f.nvme.identify[76] = 1 << 1 }), disk: "nvme0n1", method: "nvme format, user data erase", why: "other controllers of the same disk"},
		"other controllers that are known": {fake: nvme(func(f *fake) {
			f.nvme.identify[76] = 1 << 1
			f.nvme.identify[256] |= 1 << 3
		}), disk: "nvme0n1", method: "nvme sanitize, block erase"},
		"trimmed with a promise": {fake: nvme(func(f *fake) {
			f.nvme.identify[328], f.nvme.identify[256], f.nvme.ns[33], f.discards, f.zeroes = 0, 0, 1, true, true
		}), disk: "nvme0n1", method: "discard", sent: []string{"discard"}, says: "DLFEAT"},

		"ata": {fake: ata(nil), disk: "sda", method: "ata secure erase", sent: []string{"set password", "erase unit"}, says: "the enhanced erase succeeded, the disk no longer has a password, and 256 samples"},
		"ata without enhanced": {fake: ata(func(f *fake) { f.ata.words[128], f.ata.took = 1, 3*time.Hour }), disk: "sda", method: "overwrite", sent: []string{"set password", "erase unit", "disable password"},
			why: "the controller gave up"}, // it takes longer than twice its estimate of an hour and ten minutes
		"ata without a password": {fake: ata(func(f *fake) { f.ata.words[82] = 0 }), disk: "sda", method: "overwrite", why: "ATA security"},
		"frozen":                 {fake: ata(func(f *fake) { f.ata.frozen = true }), disk: "sda", method: "overwrite", why: "the disk is frozen: the firmware of the machine has locked"},
		"ata fails": {fake: ata(func(f *fake) { f.ata.fails = true }), disk: "sda", method: "overwrite",
			sent: []string{"set password", "erase unit", "disable password"}, why: "the disk has aborted the command"},
		"ata lies":             {fake: ata(func(f *fake) { f.ata.lies = true }), disk: "sda", method: "overwrite", why: "samples are still on the disk"},
		"ata erases half":      {fake: ata(func(f *fake) { f.ata.half = true }), disk: "sda", method: "overwrite", why: "samples are still on the disk"},
		"ata keeps a password": {fake: ata(func(f *fake) { f.ata.stays = true }), disk: "sda", method: "overwrite", sent: []string{"set password", "erase unit", "disable password"}, why: "still has its password"},
		"locked by us": {fake: ata(func(f *fake) { f.ata.enabled, f.ata.locked, f.ata.has = true, true, password }), disk: "sda",
			method: "ata secure erase", sent: []string{"unlock", "disable password", "set password", "erase unit"}},
		"locked by others":          {fake: ata(func(f *fake) { f.ata.enabled, f.ata.locked, f.ata.has = true, true, "theirs" }), disk: "sda", why: `a password that is not "slipway"`},
		"trimmed without a promise": {fake: ata(func(f *fake) { f.ata.words[82], f.discards, f.zeroes = 0, true, true }), disk: "sda", method: "overwrite", why: "that proves nothing"},
		"trimmed with a promise of ATA": {fake: ata(func(f *fake) {
			f.ata.words[82], f.ata.words[69], f.discards, f.zeroes = 0, 1<<14|1<<5, true, true
		}), disk: "sda", method: "discard", says: "DRAT and RZAT"},
		"a broken promise": {fake: ata(func(f *fake) {
			f.ata.words[82], f.ata.words[69], f.discards, f.zeroes, f.keeps = 0, 1<<14|1<<5, true, true, true
		}), disk: "sda", method: "overwrite", why: "are still on the disk"},

		"SAS":                       {fake: &fake{data: newFake().data, scsi: &fakeSCSI{}, broken: -1}, disk: "sdb", method: "overwrite", why: "it is not an ATA disk"},
		"SAS that unmaps":           {fake: &fake{data: newFake().data, scsi: &fakeSCSI{zeroes: true}, discards: true, zeroes: true, broken: -1}, disk: "sdb", method: "discard", says: "LBPRZ"},
		"virtual":                   {fake: newFake(), disk: "vda", method: "overwrite", says: "all of it was read back"},
		"a secure discard":          {fake: &fake{data: newFake().data, secureDiscards: true, zeroes: true, broken: -1}, disk: "mmcblk0", method: "secure discard"},
		"a sector that cannot be":   {fake: &fake{data: newFake().data, broken: 3<<20 + 512}, disk: "vda", why: "byte 3145728 cannot be written"},
		"writes that are forgotten": {fake: &fake{data: newFake().data, broken: -1, deaf: true}, disk: "vda", why: "something else than was written"},
	} {
		t.Run(name, func(t *testing.T) {
			erased(t, c.fake, c.disk, func(t *testing.T, e item.Erasure) {
				if c.method == "" && e.Done || c.method != "" && (!e.Done || e.Last().Method != c.method) {
					t.Errorf("erased %t by %s, want %q", e.Done, e.Last().Method, c.method)
				}
				if c.sent != nil && !slices.Equal(c.fake.sent, c.sent) {
					t.Errorf("sent was %q, want %q", c.fake.sent, c.sent)
				}
				if c.why != "" && !slices.ContainsFunc(e.Tries, func(t item.EraseTry) bool { return strings.Contains(t.Why, c.why) }) {
					t.Errorf("no try says %q: %+v", c.why, e.Tries)
				}
				if !strings.Contains(e.Last().Verified, c.says) {
					t.Errorf("verified is %q, want %q", e.Last().Verified, c.says)
				}
			})
		})
	}
}

// The machine loses its power in the middle of each kind of erase. The disk can be read again
// before it is begun once more, and nothing is erased by that.
func TestACutIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		fake *fake
		disk string
	}{
		"ata": {func() *fake {
			f := newFake()
			f.ata = newATA()
			f.ata.enabled, f.ata.locked, f.ata.has = true, true, password
			return f
		}(), "sda"},
		"sanitize": {func() *fake {
			f := newFake()
			f.nvme = newNVMe()
			f.nvme.state, f.nvme.after = sanitizing, sanitized
			return f
		}(), "nvme0n1"},
		"failed": {func() *fake {
			f := newFake()
			f.nvme = newNVMe()
			f.nvme.state, f.nvme.cdw10 = sanitizeFailed, 0x0a
			return f
		}(), "nvme0n1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.fake.nvme != nil {
					c.fake.nvme.ends = time.Now().Add(20 * time.Minute)
				}
				d := item.Disk{Name: c.disk, Bytes: fakeBytes, Sector: 512}
				b := aligned(4096)
				if _, err := c.fake.ReadAt(b, 0); err == nil {
					t.Fatal("it could be read before")
				}
				if err := Recover(t.Context(), c.fake, d, nil); err != nil {
					t.Fatal(err)
				}
				if _, err := c.fake.ReadAt(b, 0); err != nil || !c.fake.holdsSecret() {
					t.Errorf("it can be read: %v; erased %t", err, !c.fake.holdsSecret())
				}
				if e := Disk(t.Context(), c.fake, d, nil); !e.Done || c.fake.holdsSecret() {
					t.Errorf("then: %+v", e)
				}
			})
		})
	}
}

// Nothing is claimed of an erase whose time was over.
func TestTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.nvme = newNVMe()
		f.nvme.took = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		e := Disk(ctx, f, item.Disk{Name: "nvme0n1", Bytes: fakeBytes, Sector: 512}, nil)
		if e.Done || len(e.Tries) != 1 || !strings.Contains(e.Last().Why, "deadline") {
			t.Errorf("%+v", e)
		}
	})
}

// An ATA disk that is cut while it erases itself is locked, and says so to whoever is there.
func TestPowerIsCutInAnATAErase(t *testing.T) {
	f := newFake()
	f.ata = newATA()
	f.ata.cut = true
	erased(t, f, "sda", func(t *testing.T, e item.Erasure) {
		if tried, _ := tryOf(e, "ata secure erase"); !strings.Contains(tried.Why, "the disk is gone") {
			t.Errorf("it says %+v", e.Tries)
		}
	})
}

// Samples are all over a disk, in order, and never twice.
func TestSpread(t *testing.T) {
	for _, blocks := range []int64{1, 2, 3, 255, 256, 257, 1000, 1 << 33} {
		all, err := spread(blocks, mostSamples)
		if err != nil || int64(len(all)) != min(blocks, mostSamples) || all[0] != 0 && blocks > 0 || all[len(all)-1] != blocks-1 {
			t.Fatalf("of %d: %v, %v", blocks, all, err)
		}
		if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("of %d they are %v", blocks, all)
		}
	}
	if _, err := spread(0, mostSamples); err == nil {
		t.Error("of nothing there are samples")
	}
}

// What a disk tells is read in any bytes.
func FuzzSense(f *testing.F) {
	f.Add([]byte{0x72, 0x05, 0x20, 0x00})
	f.Add([]byte{0xf0, 0, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if key, _ := sense(b); key > 0xf {
			t.Errorf("key %x", key)
		}
		c := SCSICommand{Status: 2, Sense: b}
		if c.err() == nil {
			t.Error("a command that failed is no error")
		}
	})
}

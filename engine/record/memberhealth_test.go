package record

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// is returns what a host says of a member.
func (h *host) is(address string) Member {
	h.t.Helper()
	list, err := h.Members(h.t.Context())
	must(h.t, err)
	m, found := find(list, address)
	if !found {
		h.t.Fatalf("%s is not in %+v", address, list)
	}
	return m
}

// A member whose disk hangs runs and answers over HTTP, and is not said to take part. It cannot tell itself whether
// others do.
func TestMemberWithHangingDisk(t *testing.T) {
	t.Parallel()
	all, b, _ := grown(t)
	hung := all[1]
	database := hung.etcd.etcd.Server.Backend().BatchTx()
	database.Lock() // as a write to it that does not end
	must(t, b.PutMessage(t.Context(), "meanwhile", []byte(`1`)))
	if m := all[0].is(hung.address()); !strings.Contains(m.Trouble, "takes no part in what is written: its disk hangs") || m.Unknown {
		t.Errorf("with a hanging disk: %+v", m)
	}
	if m := all[0].is(all[2].address()); m.Trouble != "" || m.Unknown {
		t.Errorf("the third: %+v", m)
	}
	list, err := hung.Members(t.Context())
	must(t, err)
	if unknown := slices.DeleteFunc(list, func(m Member) bool { return !m.Unknown }); len(unknown) != 2 {
		t.Errorf("one whose own writes do not end claims to know of others: %+v", unknown)
	}
	database.Unlock()
	all[0].votes(3)
}

// A member says of itself that its disk hangs, and leaves one write waiting, not one for each look.
func TestOwnDiskHangs(t *testing.T) {
	t.Parallel()
	h := hosts(t, 1)[0]
	must(t, h.open())
	if m := h.is(h.address()); m.Trouble != "" {
		t.Fatalf("it works: %+v", m)
	}
	h.dir = filepath.Join(t.TempDir(), "records")
	must(t, unix.Mkdir(h.dir, 0o700))
	pipe := filepath.Join(h.dir, diskFile)
	must(t, unix.Mkfifo(pipe, 0o600)) // which nobody reads: a write to it does not end
	h.Store.dir = h.dir
	for range 2 {
		if m := h.is(h.address()); !strings.Contains(m.Trouble, "its disk has not ended a small write within 3s: see to the disk of "+h.dir) {
			t.Errorf("it hangs: %+v", m)
		}
	}
	r, err := unix.Open(pipe, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	defer unix.Close(r)
	soon(t, "it answers", func() error {
		if m := h.is(h.address()); m.Trouble != "" {
			return fmt.Errorf("%+v", m)
		}
		return nil
	})
}

// A cluster that runs beside another one is noticed by both, as far as folders or the log name the others.
func TestOtherClusters(t *testing.T) {
	t.Parallel()
	all, _, _ := grown(t)
	if is := all[0].OtherClusters(t.Context()); is != nil {
		t.Fatalf("there is none: %v", is)
	}
	b := all[1]
	b.down()
	known := b.cluster.Peer.Others
	b.dir = filepath.Join(t.TempDir(), "records")
	b.cluster.Peer.Others = nil // a folder that knows nobody: it can be begun
	_, err := Found(t.Context(), b.dir, b.cluster, Source{}, Options{NoSync: true})
	must(t, err)
	b.cluster.Peer.Others = known
	must(t, b.open())
	if is := all[0].OtherClusters(t.Context()); !slices.Equal(is, []string{b.address()}) {
		t.Errorf("the first cluster sees %v", is)
	}
	if m := all[0].is(b.address()); !m.OtherCluster {
		t.Errorf("its list shows %+v", m)
	}
	if is := b.OtherClusters(t.Context()); len(is) != 2 {
		t.Errorf("the second cluster sees %v", is)
	}
	if all[0].ClusterID() == b.ClusterID() || b.ClusterID() == "" {
		t.Errorf("both are %q", b.ClusterID())
	}
}

package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// stormed is what became of machines that started at once.
type stormed struct {
	Seconds   float64
	Addresses float64 // seconds until the last one had its address
	Bytes     int64
	Again     int64 // requests of DHCP that were sent again
}

// storm has machines start at once, as firmware for UEFI HTTP boot does: each gets its address
// by DHCP, asks for the size of the ramdisk's image and reads it. What serves them is the daemon,
// which keeps a site of them and has armed them all. To be simulated on one host, the bodies are
// cut; none is before every machine has read the beginning of its own, so that all are served at
// the same time.
func storm(quick bool) ([]string, error) {
	machines, size, cut := 1000, int64(32<<20), int64(4<<20)
	if quick {
		machines, size, cut = 100, 8<<20, 1<<20
	}
	dir, err := os.MkdirTemp("", "bench-install-storm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	count, bytes := strconv.Itoa(machines), strconv.FormatInt(size, 10)
	server, all, err := beginPair(own("site", dir, count, bytes), own("storm", count, bytes, strconv.FormatInt(cut, 10)))
	if err != nil {
		return nil, err
	}
	defer server.end()
	defer all.end()
	rig.Progress("storm: the daemon arms %d machines", machines)
	var daemon int
	if err := server.result(&daemon); err != nil {
		return nil, err
	}
	before, err := peak(daemon)
	if err != nil {
		return nil, err
	}
	cpu, _, err := rig.Usage(daemon)
	if err != nil {
		return nil, err
	}
	rig.Progress("storm: all are armed; the daemon has had %.0f MiB at most", mib(before))
	if err := all.proceed(); err != nil {
		return nil, err
	}
	var is stormed
	if err := all.result(&is); err != nil {
		return nil, err
	}
	after, _, err := rig.Usage(daemon)
	if err != nil {
		return nil, err
	}
	most, err := peak(daemon)
	if err != nil {
		return nil, err
	}
	rig.Progress("storm: %d machines: addresses after %.2f s, all after %.2f s, %.0f MB sent, %d requests of DHCP sent again, %.2f s of CPU, at most %.0f MiB",
		machines, is.Addresses, is.Seconds, float64(is.Bytes)/1e6, is.Again, (after - cpu).Seconds(), mib(most))
	name := "install/boot-storm-" + count
	return []string{rig.Figure(name, is.Seconds, "s"), rig.Figure(name+"-peak", mib(most), "MiB")}, nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// patience is how long firmware waits before it asks again (EDK2's DHCP).
var patience = []time.Duration{4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second}

// httpBoot is what firmware for UEFI HTTP boot adds to its requests.
var httpBoot = []dhcpv4.Modifier{
	dhcpv4.WithOption(dhcpv4.OptClassIdentifier("HTTPClient:Arch:00016:UNDI:003001")),
	dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_X86_64_HTTP)),
	dhcpv4.WithRequestedOptions(dhcpv4.OptionBootfileName),
}

// gathering is machines that go on when all of them are there.
type gathering struct {
	left atomic.Int64
	here chan struct{}
}

func gather(n int64) *gathering {
	g := &gathering{here: make(chan struct{})}
	g.left.Store(n)
	return g
}

// arrive is called once by each.
func (g *gathering) arrive() {
	if g.left.Add(-1) == 0 {
		close(g.here)
	}
}

// bootAll has machines start at once.
func bootAll(args []string) error {
	var count, size, cut int64
	if err := numbers(args, &count, &size, &cut); err != nil {
		return err
	}
	s, err := openSegment()
	if err != nil {
		return err
	}
	if err := s.awaitServer(httpBoot...); err != nil {
		return err
	}
	all := &crowd{segment: s, size: size, cut: cut, reading: gather(count), begun: time.Now()}
	failed := make([]error, count)
	var running sync.WaitGroup
	for i := range count {
		running.Go(func() { failed[i] = all.boot(machineOf(int(i))) })
	}
	running.Wait()
	took := time.Since(all.begun)
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return tell(stormed{took.Seconds(), time.Duration(all.addresses.Load()).Seconds(), all.bytes.Load(), all.again.Load()})
}

// crowd is machines that start at once.
type crowd struct {
	*segment
	size, cut               int64
	reading                 *gathering
	begun                   time.Time
	addresses, bytes, again atomic.Int64
}

// boot starts one machine. The others do not wait for one that fails.
func (c *crowd) boot(m machine) error {
	arrive := sync.OnceFunc(c.reading.arrive)
	defer arrive()
	ack, again, err := c.exchange(m, patience, httpBoot...)
	c.again.Add(int64(again))
	if err != nil {
		return err
	}
	c.hasAddress(time.Since(c.begun))
	url := ack.BootFileNameOption()
	if url == "" {
		return fmt.Errorf("%s is told no boot file", m.name)
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: m.address.AsSlice()}}
	t := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true}
	defer t.CloseIdleConnections()
	client := &http.Client{Transport: t, Timeout: 5 * time.Minute}
	if err := c.read(client, url, arrive); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return nil
}

// read asks for the size of a file, and reads it up to where it is cut.
func (c *crowd) read(client *http.Client, url string, arrive func()) error {
	head, err := client.Head(url)
	if err != nil {
		return err
	}
	head.Body.Close()
	if head.StatusCode != http.StatusOK || head.ContentLength != c.size {
		return fmt.Errorf("%s: answered %s, %d bytes", url, head.Status, head.ContentLength)
	}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	buffer := make([]byte, 64<<10)
	n, err := skip(resp.Body, int64(len(buffer)), buffer)
	if err != nil {
		return err
	}
	arrive()
	<-c.reading.here
	rest, err := skip(resp.Body, c.cut-n, buffer)
	c.bytes.Add(n + rest)
	if err == nil && n+rest != c.cut {
		err = fmt.Errorf("%d bytes of %d came", n+rest, c.cut)
	}
	return err
}

// hasAddress notes when the last machine got its address.
func (c *crowd) hasAddress(after time.Duration) {
	for {
		last := c.addresses.Load()
		if int64(after) <= last || c.addresses.CompareAndSwap(last, int64(after)) {
			return
		}
	}
}

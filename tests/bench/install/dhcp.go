package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// exchanges is what a DHCP server is asked for: every machine gets its designed address
// several times, many at once.
type exchanges struct {
	machines, each, atOnce, rounds int
}

// exchanged is what became of it.
type exchanged struct {
	Seconds float64
	Again   int64 // requests that were sent again
}

// dhcp has our server and dnsmasq serve the same machines, in turn. Both know them by MAC
// address, probe no address before they give it, and write each lease to the same disk before
// they confirm it. Each begins with no lease.
func dhcp(quick bool) ([]string, error) {
	x := exchanges{machines: 1000, each: 5, atOnce: 64, rounds: 3}
	if quick {
		x = exchanges{machines: 200, each: 5, atOnce: 16, rounds: 1}
	}
	var rates [2][]float64
	for range x.rounds {
		for i, server := range []struct {
			name string
			line func(dir string, machines int) ([]string, error)
		}{{"slipway", ourDHCP}, {"dnsmasq", dnsmasq}} {
			rate, err := x.measure(server.name, server.line)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", server.name, err)
			}
			rates[i] = append(rates[i], rate)
		}
	}
	return []string{rig.Figure("install/dhcp-rate", rig.Median(rates[0])/rig.Median(rates[1]), "ratio")}, nil
}

// measure is how many exchanges a server completes in a second.
func (x exchanges) measure(name string, line func(string, int) ([]string, error)) (float64, error) {
	dir, err := os.MkdirTemp("", "bench-install-dhcp-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	command, err := line(dir, x.machines)
	if err != nil {
		return 0, err
	}
	total := x.machines * x.each
	server, machines, err := beginPair(command, own("exchange", strconv.Itoa(x.machines), strconv.Itoa(total), strconv.Itoa(x.atOnce)))
	if err != nil {
		return 0, err
	}
	defer server.end()
	defer machines.end()
	if err := machines.proceed(); err != nil {
		return 0, err
	}
	var is exchanged
	if err := machines.result(&is); err != nil {
		server.end()
		return 0, fmt.Errorf("%w; the server says: %s", err, server.said.String())
	}
	cpu, _, err := rig.Usage(server.pid())
	if err != nil {
		return 0, err
	}
	rate := float64(total) / is.Seconds
	rig.Progress("dhcp: %s: %d exchanges in %.2f s, %.0f a second, %d requests sent again, %.2f s of CPU since its start", name, total, is.Seconds, rate, is.Again, cpu.Seconds())
	return rate, nil
}

// ourDHCP is the server of the daemon, with the records of the daemon.
func ourDHCP(dir string, machines int) ([]string, error) {
	return own("netboot", dir, strconv.Itoa(machines)), nil
}

// dnsmasq is Debian's, as a DHCP server alone, with the machines in a file.
func dnsmasq(dir string, machines int) ([]string, error) {
	var hosts strings.Builder
	for i := range machines {
		m := machineOf(i)
		fmt.Fprintf(&hosts, "%s,%s,1h\n", m.mac, m.address)
	}
	if err := rig.Write(dir, map[string]string{"hosts": hosts.String()}); err != nil {
		return nil, err
	}
	return []string{"/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--user=root", "--port=0", "--interface=" + lan,
		"--no-ping", "--dhcp-authoritative", "--quiet-dhcp", "--dhcp-lease-max=10000", "--dhcp-range=10.99.128.0,static,255.255.0.0,1h",
		"--dhcp-hostsfile=" + filepath.Join(dir, "hosts"), "--dhcp-leasefile=" + filepath.Join(dir, "leases"), "--log-facility=" + filepath.Join(dir, "log")}, nil
}

// exchangeAll has machines get their addresses, many at once, as soon as the server answers.
func exchangeAll(args []string) error {
	var count, total, atOnce int64
	if err := numbers(args, &count, &total, &atOnce); err != nil {
		return err
	}
	s, err := openSegment()
	if err != nil {
		return err
	}
	if err := s.awaitServer(); err != nil {
		return err
	}
	var next, again atomic.Int64
	failed := make([]error, atOnce)
	var all sync.WaitGroup
	begun := time.Now()
	for worker := range atOnce {
		all.Go(func() {
			for i := next.Add(1) - 1; i < total && failed[worker] == nil; i = next.Add(1) - 1 {
				var more int
				_, more, failed[worker] = s.exchange(machineOf(int(i%count)), seconds(10))
				again.Add(int64(more))
			}
		})
	}
	all.Wait()
	took := time.Since(begun)
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return tell(exchanged{took.Seconds(), again.Load()})
}

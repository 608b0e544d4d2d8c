package lab_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// maxMemory is what a process may take that carries a fleet of many machines.
const maxMemory = 1 << 30

// A fleet of 5,000 machines, each of which was just talked to over a TLS
// connection of its own that is still open, takes less than 1 GiB; that
// counts the clients, which are in the same process. Under the race detector,
// which takes several times the memory itself, they are fewer.
func TestManyMachines(t *testing.T) {
	c := lab.Config{Seed: "many"}
	for i := range many {
		c.Machines = append(c.Machines, lab.MachineConfig{
			Name: fmt.Sprintf("n%d", i), BMCAddr: fmt.Sprintf("127.73.%d.%d", i/250, i%250+1), OSAddr: fmt.Sprintf("127.74.%d.%d", i/250, i%250+1),
			Username: "admin", Password: "pw", Identity: site.Identity{UUID: fmt.Sprintf("5e1d0000-0000-4000-8000-%012d", i)}, Power: "on",
		})
	}
	f := start(t, c)
	config := &tls.Config{RootCAs: pool(f), ClientSessionCache: tls.NewLRUClientSessionCache(many)}
	var wg sync.WaitGroup
	names := make(chan string)
	for range 16 {
		wg.Go(func() {
			for name := range names {
				look(t, config, strings.TrimPrefix(f.BMCURL(name), "redfish+"))
			}
		})
	}
	began := time.Now()
	for _, name := range f.Names() {
		names <- name
	}
	close(names)
	wg.Wait()
	if got := f.CallCount(); got != many {
		t.Errorf("%d machines were looked at", got)
	}
	debug.FreeOSMemory()
	rss := resident(t)
	t.Logf("%d machines: %d MiB, looked at in %s", many, rss>>20, time.Since(began).Round(time.Millisecond))
	if rss > maxMemory {
		t.Errorf("%d machines take %d MiB, want at most %d", many, rss>>20, maxMemory>>20)
	}
}

// look reads a system and keeps the connection.
func look(t *testing.T, config *tls.Config, url string) {
	tr := &http.Transport{TLSClientConfig: config}
	t.Cleanup(tr.CloseIdleConnections)
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Error(err)
		return
	}
	req.SetBasicAuth("admin", "pw")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
		t.Errorf("%s: %s, %v", url, resp.Status, err)
	}
}

// resident is how much memory the process has, in bytes (proc_pid_status(5)).
func resident(t *testing.T) (bytes int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, ok := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscanf(line, "%d kB", &bytes); !ok || err != nil {
		t.Fatalf("no VmRSS: %v", err)
	}
	return bytes << 10
}

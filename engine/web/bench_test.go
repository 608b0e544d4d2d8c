package web

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/garbage"
)

// largeDaemon is a daemon of a site of 10,000 nodes, which collects its garbage as `slipway run` does: the collector's own
// setting would have it collect many times as often for as small a heap.
func largeDaemon() *fleet {
	garbage.CollectBySize()
	return large()
}

// large is a site of 10,000 nodes. What its daemon says is made anew whenever the API asks for it, as by an engine.
func large() *fleet {
	return &fleet{said: "as it says", reason: "Installs generation 2", size: 9_994, racked: true}
}

func figure(name string, value float64, unit string) {
	fmt.Printf("bench: web/%s %.1f %s\n", name, value, unit)
}

func inMillis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// used is the processor time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFirstPage measures how long pages of a site of 10,000 nodes take that somebody opens, over HTTPS on
// loopback, and how many bytes they have. Nobody has asked for a while before each, so that its report is its own. The
// processor time is that of the daemon with the client.
func BenchmarkFirstPage(b *testing.B) {
	address, as := onNetwork(b, largeDaemon())
	ana := as("ana@example.org")
	for b.Loop() {
		for _, x := range [][2]string{{"first-page", "/sites/berlin"}, {"nodes-page", "/sites/berlin/nodes"}, {"node-page", "/sites/berlin/nodes/web-1"},
			{"racks-page", "/sites/berlin/racks"}, {"findings-page", "/sites/berlin/findings"}, {"approvals-page", "/sites/berlin/approvals"}} {
			name, path := x[0], x[1]
			var took []time.Duration
			var cpu time.Duration
			size := 0
			for range 100 {
				time.Sleep(300 * time.Millisecond)
				before, began := used(b), time.Now()
				status, text, _ := sends(b, ana, "GET", address+path, "")
				took = append(took, time.Since(began))
				cpu += used(b) - before
				if size = len(text); status != 200 {
					b.Fatalf("%s: %d %s", path, status, text)
				}
			}
			slices.Sort(took)
			figure(name+"-p50-ms", inMillis(took[len(took)/2]), "ms")
			figure(name+"-p99-ms", inMillis(took[len(took)*99/100]), "ms")
			figure(name+"-cpu-ms", inMillis(cpu)/100, "ms")
			figure(name+"-kb", float64(size)/1024, "KB")
		}
	}
}

// BenchmarkOpenPages measures what open pages of a site of 10,000 nodes cost the daemon. Three persons have them open, in a
// process of their own: half of them the overview, a quarter the list of nodes, a quarter a node each. One node changes in a
// second; in the storm at the end all of them change ten times a second.
func BenchmarkOpenPages(b *testing.B) {
	f := largeDaemon()
	address, as := onNetwork(b, f)
	for b.Loop() {
		// The fewest bytes in some seconds are those while no page is rendered, and no report kept.
		atRest := func() int64 {
			least := inUse()
			for range 6 {
				time.Sleep(time.Second)
				least = min(least, inUse())
			}
			return least
		}
		before := atRest()
		hundred := open(b, address, as, 100)
		figure("page-memory-kib", float64(atRest()-before)/100/1024, "KiB")

		const changes = 30
		cpu, began := used(b), time.Now()
		var took []time.Duration
		for i := range changes {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second)))
			at := time.Now()
			f.happens(fmt.Sprintf("change %d.", i))
			took = append(took, hundred.seen(b, i).Sub(at))
		}
		time.Sleep(time.Until(began.Add(changes * time.Second)))
		figure("viewers-100-cpu", 100*(used(b)-cpu).Seconds()/time.Since(began).Seconds(), "% of a core")
		slices.Sort(took)
		figure("change-visible-ms", inMillis(took[len(took)/2]), "ms")
		figure("change-visible-max-ms", inMillis(took[len(took)-1]), "ms")
		hundred.close()

		both := open(b, address, as, 200)
		sent := both.changes(b)
		cpu, began = used(b), time.Now()
		for i := range 100 {
			f.storms(fmt.Sprintf("storm %d.", i))
			time.Sleep(time.Until(began.Add(time.Duration(i+1) * 100 * time.Millisecond)))
		}
		span := time.Since(began).Seconds()
		figure("events-200", float64(both.changes(b)-sent)/span, "changes/s")
		figure("events-200-cpu", 100*(used(b)-cpu).Seconds()/span, "% of a core")
		both.close()
	}
}

// inUse are the bytes of this process that are in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// viewing is what the process of viewers is given.
type viewing struct {
	Address string
	People  [][2][]byte // certificates and keys
	Pages   []string
}

// viewers are a process that has pages open.
type viewers struct {
	lines *bufio.Scanner
	ask   func(string)
	close func()
}

// open opens pages, and waits until each was shown something.
func open(b *testing.B, address string, as func(string) *http.Client, n int) *viewers {
	b.Helper()
	v := viewing{Address: address}
	for _, who := range []string{"ana", "bob", "dora"} {
		own := as(who + "@example.org").Transport.(*http.Transport).TLSClientConfig.Certificates[0]
		key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
		if err != nil {
			b.Fatal(err)
		}
		v.People = append(v.People, [2][]byte{own.Certificate[0], key})
	}
	for i := range n {
		v.Pages = append(v.Pages, []string{"/sites/berlin", "/sites/berlin/nodes", "/sites/berlin", fmt.Sprintf("/sites/berlin/nodes/x-%05d", i)}[i%4])
	}
	text, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestViewersOfBench$")
	cmd.Env, cmd.Stderr = append(os.Environ(), "SLIPWAY_VIEWING="+string(text)), os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil {
		b.Fatal(inErr, outErr)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	all := &viewers{lines: bufio.NewScanner(out), ask: func(what string) { fmt.Fprintln(in, what) }, close: sync.OnceFunc(func() {
		in.Close()
		cmd.Wait()
	})}
	b.Cleanup(all.close)
	all.next(b, "ready")
	return all
}

// next is what the process says next of a kind.
func (v *viewers) next(b *testing.B, kind string) (number int64, at int64) {
	b.Helper()
	for v.lines.Scan() {
		if n, _ := fmt.Sscanf(v.lines.Text(), kind+" %d %d", &number, &at); n == 2 {
			return number, at
		}
	}
	b.Fatalf("the viewers have ended: %v", v.lines.Err())
	return 0, 0
}

// seen is when a change was first shown to somebody.
func (v *viewers) seen(b *testing.B, change int) time.Time {
	b.Helper()
	for {
		if n, at := v.next(b, "seen"); n == int64(change) {
			return time.Unix(0, at)
		}
	}
}

// changes is how many there were on all pages together.
func (v *viewers) changes(b *testing.B) int64 {
	b.Helper()
	v.ask("changes")
	n, _ := v.next(b, "changes")
	return n
}

// TestViewersOfBench is the process of viewers: it says what they are shown.
func TestViewersOfBench(t *testing.T) {
	var v viewing
	if text := os.Getenv("SLIPWAY_VIEWING"); text == "" {
		t.Skip("is for `make bench-web`")
	} else if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	changes, newest, ready := 0, -1, 0
	say := func(kind string, number int) { fmt.Println(kind, number, time.Now().UnixNano()) }
	shown := func(data string) {
		mu.Lock()
		defer mu.Unlock()
		changes++
		if _, text, is := strings.Cut(data, "change "); is {
			number, _, _ := strings.Cut(text, ".")
			if n, err := strconv.Atoi(number); err == nil && n > newest {
				newest = n
				say("seen", n)
			}
		}
	}
	begun := func() {
		mu.Lock()
		defer mu.Unlock()
		if ready++; ready == len(v.Pages) {
			say("ready", ready)
		}
	}
	for i, page := range v.Pages {
		p := v.People[i%len(v.People)]
		key, err := x509.ParsePKCS8PrivateKey(p[1])
		if err != nil {
			t.Fatal(err)
		}
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{{Certificate: [][]byte{p[0]}, PrivateKey: key}}}}}
		go func() {
			begins := sync.OnceFunc(begun)
			for { // as a browser
				resp, err := c.Get(v.Address + "/sites/berlin/live?" + url.Values{"page": {page}}.Encode())
				if err != nil {
					return
				}
				lines := bufio.NewScanner(resp.Body)
				lines.Buffer(nil, 1<<20)
				for lines.Scan() {
					if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
						shown(data)
						begins()
					}
				}
				resp.Body.Close()
				<-time.After(time.Second)
			}
		}()
	}
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		mu.Lock()
		n := changes
		mu.Unlock()
		say(asked.Text(), n)
	}
}

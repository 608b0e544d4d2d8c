package start

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// console writes lines for people to all kernel consoles.
type console struct {
	mu    sync.Mutex
	to    []io.Writer
	begun time.Time
	last  string
	told  []string // the last lines, for the daemon
}

// openConsoles opens all consoles in proc_consoles(5). The kernel gives the first process only the last of them.
func openConsoles() *console {
	c := &console{begun: time.Now()}
	text, _ := os.ReadFile("/proc/consoles")
	for l := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(l, " ")
		if f, err := os.OpenFile("/dev/"+name, os.O_WRONLY|syscall.O_NOCTTY, 0); err == nil {
			c.to = append(c.to, f)
		}
	}
	if len(c.to) == 0 {
		c.to = []io.Writer{os.Stderr}
	}
	return c
}

// say writes a line, unless it repeats the last one.
func (c *console) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if text == c.last {
		return
	}
	c.last = text
	line := fmt.Sprintf("[slipway %5.1f s] %s", time.Since(c.begun).Seconds(), text)
	if r := []rune(line); len(r) > longestLine {
		line = string(r[:longestLine])
	}
	c.told = append(c.told[max(0, len(c.told)-wire.MaxSaid+1):], line)
	for _, w := range c.to {
		fmt.Fprintf(w, "[slipway %5.1f s] %s\r\n", time.Since(c.begun).Seconds(), text)
	}
}

// longestLine bounds a line for the daemon, in characters, because all lines go into one Hello.
const longestLine = 400

// untold are the last lines, which are sent with a call. A daemon that refuses the machine, or is not reached, may
// get them twice.
func (c *console) untold() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told)
}

// forget drops the lines that the daemon has received.
func (c *console) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = nil
}

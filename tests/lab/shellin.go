package lab

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// What the driver's scripts do as root begins so; before it are the commands of its
// report.
const asRoot = `R="`

var (
	// tries are the parts before that in which the script tries to start the program at once:
	// it answers the same as the rest of the script.
	tries   = regexp.MustCompile(`D=\S+; for P in [0-9a-f: ]*; do .*?\}; done; |if \[ -d .*? fi; `)
	started = regexp.MustCompile(`for P in ([0-9a-f: ]*); do`)
	lent    = regexp.MustCompile(`exec 9< \S+/helper-([0-9a-f]{64}); .*exec /proc/self/fd/9 `)
	pushed  = regexp.MustCompile(`H=helper-([0-9a-f]{64}); .*head -c ([0-9]+) > `)
)

// runInside runs a script that begins with commands and ends with the program inside
// the system, or with taking it from the input. It says whether it is such a script.
func (m *Machine) runInside(script string, in io.Reader, out io.Writer) (status int, is bool) {
	report, root, is := strings.Cut(script, asRoot)
	if !is {
		return 0, false
	}
	var text, errs bytes.Buffer
	m.shell(tries.ReplaceAllString(report, ""), &text, &errs)
	text.WriteString("\n--helper\n")
	if _, err := out.Write(text.Bytes()); err != nil {
		return 1, true
	}
	if p := pushed.FindStringSubmatch(root); p != nil {
		return m.takeProgram(p[1], p[2], strings.Contains(root, "D=/dev/shm/"), in, out), true
	}
	if l := lent.FindStringSubmatch(root); l != nil {
		if m.takeLent() != l[1] {
			return 127, true
		}
		return m.program(in, out), true
	}
	s := started.FindStringSubmatch(root)
	if s == nil {
		return 127, true
	}
	there, owns := m.hasInside()
	for _, known := range strings.Fields(s[1]) {
		if digest, _, _ := strings.Cut(known, ":"); digest == there {
			return m.program(in, out), true
		}
	}
	fmt.Fprintln(out, "absent x86_64")
	if owns {
		fmt.Fprintln(out, "owned")
	}
	return 0, true
}

// takeLent takes the digest of the program that was sent for once.
func (m *Machine) takeLent() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	there := m.in.lent
	m.in.lent = ""
	return there
}

// hasInside is the digest of the program that is kept inside the system, and whether the system has a list of what
// Slipway made in it.
func (m *Machine) hasInside() (program string, owns bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.in.program, m.in.digest() != ""
}

// takeProgram takes the program with a digest from the input, to keep it or for once.
func (m *Machine) takeProgram(digest, size string, once bool, in io.Reader, out io.Writer) (status int) {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n > 64<<20 {
		return 1
	}
	sum := sha256.New()
	if got, err := io.CopyN(sum, in, n); err != nil || got != n {
		return 1
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		return 1
	}
	m.mu.Lock()
	if once {
		m.in.lent = digest
	} else {
		m.in.program = digest
	}
	m.mu.Unlock()
	fmt.Fprintln(out, "pushed")
	return 0
}

package systemd

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// properties are those that are asked for somewhere.
var properties = []string{"LoadState", "ActiveState", "SubState", "Type", "Result", "NeedDaemonReload", "RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf"}

// inSystem is set where the test's program runs in the system of the test.
const inSystem = "SLIPWAY_TEST_IN_SYSTEM"

func TestMain(m *testing.M) {
	if os.Getenv(inSystem) == "" {
		os.Exit(m.Run())
	}
	host := inside.Real("/", true)
	host.Exec = func(context.Context, inside.Command) (inside.Output, error) {
		return inside.Output{}, errors.New("a program was started")
	}
	told, err := Show(context.Background(), host, os.Args[1:], properties...)
	failed, errFailed := Failed(context.Background(), host)
	if err = errors.Join(err, errFailed, json.NewEncoder(os.Stdout).Encode(answer{told, failed})); err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
}

type answer struct {
	Told   []map[string]string
	Failed []string
}

// A real systemd tells over the bus, and over its own socket, of every unit that it knows and of some that it does not,
// what systemctl prints.
func TestIsWhatSystemctlSays(t *testing.T) {
	nspawn.Require(t)
	s := nspawn.Boot(t, nspawn.Loopback)
	s.BringSelf()
	s.Does(`printf '[Service]\nType=oneshot\nExecStart=/bin/false\n' >'/etc/systemd/system/fails a\x2db@1.service'; cp '/etc/systemd/system/fails a\x2db@1.service' /etc/systemd/system/9fails.service; systemctl daemon-reload; systemctl start 9fails || true; touch /etc/systemd/system/cron.service; systemctl mask e2scrub_all.timer; printf '[Unit]\n' >>/etc/systemd/system/9fails.service`)
	names := append(strings.Fields(s.Does("systemctl list-units --all --plain --no-legend --full | cut -d' ' -f1")), "none.service", "no.timer", "9fails.service", "e2scrub_all.timer")
	slices.Sort(names)
	names = slices.Compact(names)
	quoted := "'" + strings.Join(names, "' '") + "'"
	blocks := strings.Split(strings.TrimSpace(s.Does("systemctl show --property="+strings.Join(properties, ",")+" -- "+quoted)), "\n\n")
	failed := strings.Fields(s.Does("systemctl list-units --state=failed --plain --no-legend --full | cut -d' ' -f1"))
	if len(blocks) != len(names) || len(names) < 50 || !slices.Contains(failed, "9fails.service") {
		t.Fatalf("%d units, %d of systemctl, failed: %q", len(names), len(blocks), failed)
	}
	var want []map[string]string
	for i := range names {
		one := map[string]string{}
		for line := range strings.Lines(blocks[i]) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			if strings.Contains(v, `"`) { // in a list systemctl quotes names such as a\x2db.mount
				v = strings.ReplaceAll(strings.ReplaceAll(v, `"`, ""), `\\`, `\`)
			}
			one[k] = v
		}
		want = append(want, one)
	}
	for _, hidden := range []string{socket, bus} { // systemd is there to be asked over the other one alone
		var got answer
		if err := json.Unmarshal([]byte(s.Does("mv "+hidden+" "+hidden+".hidden; "+inSystem+"=1 /root/program "+quoted+" || true; mv "+hidden+".hidden "+hidden)), &got); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got.Failed)
		if diff := cmp.Diff(answer{want, failed}, got); diff != "" {
			t.Errorf("without %s: %s", hidden, diff)
		}
	}
}

// manager is a socket behind which something answers that may be no systemd.
func manager(t *testing.T, answers func(io.ReadWriter)) *inside.Host {
	t.Helper()
	h := inside.Real(t.TempDir(), true)
	listen(t, h.Path(socket), answers)
	return h
}

func listen(t *testing.T, path string, answers func(io.ReadWriter)) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err == nil {
			answers(c)
			c.Close()
		}
	}()
}

// What is no answer of systemd is an error, and none that never comes holds anybody up.
func TestOddAnswers(t *testing.T) {
	large := append([]byte("OK 1\r\n"), 'l', replyType, 0, 1, 0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0, 0, 0, 0, 0)
	for name, said := range map[string]string{
		"nothing": "", "refused": "REJECTED EXTERNAL\r\n", "no line": strings.Repeat("x", 10_000), "text": "OK 1\r\nhello, I am not systemd\r\n", "too large": string(large),
		"cut": "OK 1\r\nl\x02\x00\x01\x08\x00\x00\x00",
	} {
		h := manager(t, func(c io.ReadWriter) {
			io.ReadFull(c, make([]byte, 20))
			io.WriteString(c, said)
		})
		if _, err := Failed(t.Context(), h); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	h := manager(t, func(c io.ReadWriter) {
		io.ReadFull(c, make([]byte, 20))
		cancel()
		io.Copy(io.Discard, c)
	})
	if _, err := Show(ctx, h, []string{"a.service"}, "Type"); err == nil || !strings.Contains(err.Error(), "did not answer in time") {
		t.Errorf("got %v", err)
	}
}

// Where there is no socket, systemctl is asked, and what it prints is read.
func TestByProgram(t *testing.T) {
	h := inside.Real(t.TempDir(), true)
	var asked []string
	out := "LoadState=loaded\nActiveState=active\n\nLoadState=not-found\nActiveState=inactive\n"
	h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		asked = append(asked, c.Path+" "+strings.Join(c.Args, " "))
		return inside.Output{Out: []byte(out)}, nil
	}
	told, err := Show(t.Context(), h, []string{"a.service", "b.service"}, "LoadState", "ActiveState")
	if want := []map[string]string{{"LoadState": "loaded", "ActiveState": "active"}, {"LoadState": "not-found", "ActiveState": "inactive"}}; err != nil || cmp.Diff(want, told) != "" {
		t.Errorf("got %v, %v", told, err)
	}
	if _, err := Show(t.Context(), h, []string{"a.service"}, "LoadState"); err == nil || !strings.Contains(err.Error(), "reported 2 units and not 1") {
		t.Errorf("got %v", err)
	}
	out = "a.service loaded failed failed A\nb.mount loaded failed failed B\n"
	if failed, err := Failed(t.Context(), h); err != nil || !slices.Equal(failed, []string{"a.service", "b.mount"}) {
		t.Errorf("got %q, %v", failed, err)
	}
	if len(asked) != 3 || !strings.Contains(asked[0], "show --property=LoadState,ActiveState -- a.service b.service") {
		t.Errorf("asked %q", asked)
	}
}

// Whatever comes, it is read within its bounds.
func FuzzRead(f *testing.F) {
	f.Add(message{kind: replyType, path: "/a", face: "b", member: "c", signature: "v", body: []byte("\x01s\x00\x00\x01\x00\x00\x00x\x00")}.encode(1))
	f.Add(message{kind: replyType, path: "/a", signature: "a(ssssssouso)", body: list("x")}.encode(1))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := read(bytes.NewReader(b))
		if err != nil {
			return
		}
		if text, ok := m.value(); ok && len(text) > len(b) {
			t.Errorf("a value of %d bytes in %d", len(text), len(b))
		}
		if names, err := m.units(); err == nil && len(names) > len(b) {
			t.Errorf("%d units in %d bytes", len(names), len(b))
		}
	})
}

// login is the length of what somebody says who logs in to the bus or to systemd.
func login() int { return len("\x00AUTH EXTERNAL \r\nBEGIN\r\n") + 2*len(strconv.Itoa(os.Geteuid())) }

// noneFailed is a systemd that is asked directly, of which no unit has failed.
func noneFailed(c io.ReadWriter) {
	io.ReadFull(c, make([]byte, login()))
	io.WriteString(c, "OK 1\r\n")
	read(c)
	units := append([]byte{0, 0, 0, 0}, make([]byte, 4)...) // an empty list
	c.Write(message{kind: replyType, signature: "a(ssssssouso)", body: units}.answering(1))
}

// What does not come over the bus is asked for directly.
func TestWithoutTheBus(t *testing.T) {
	refused := func(fault string) func(io.ReadWriter) {
		return func(c io.ReadWriter) {
			io.ReadFull(c, make([]byte, login()))
			io.WriteString(c, "OK 1\r\n")
			c.Write(message{kind: replyType, signature: "s", body: texts(":1.1")}.answering(1))
			c.Write(message{kind: errorType, fault: fault}.answering(2))
			io.Copy(io.Discard, c)
		}
	}
	for name, answers := range map[string]func(io.ReadWriter){
		"refused": refused("org.freedesktop.DBus.Error.AccessDenied"), "unknown": refused("org.freedesktop.DBus.Error.ServiceUnknown"),
		"ended": func(io.ReadWriter) {}, "silent": func(c io.ReadWriter) { io.Copy(io.Discard, c) },
	} {
		h := inside.Real(t.TempDir(), true)
		listen(t, h.Path(bus), answers)
		listen(t, h.Path(socket), noneFailed)
		if failed, err := Failed(t.Context(), h); err != nil || len(failed) > 0 {
			t.Errorf("%s: got %q, %v", name, failed, err)
		}
	}
}

// answering is an answer in wire format.
func (m message) answering(call uint32) []byte {
	fields := []byte{fieldReplies, 1, 'u', 0}
	fields = binary.LittleEndian.AppendUint32(fields, call)
	for code, value := range map[byte]string{fieldFault: m.fault, fieldSig: m.signature} {
		if value == "" {
			continue
		}
		if code == fieldSig {
			fields = append(append(fields, code, 1, 'g', 0, byte(len(value))), value...)
		} else {
			fields = append(fields, code, 1, 's', 0)
			fields = append(binary.LittleEndian.AppendUint32(fields, uint32(len(value))), value...)
		}
		fields = append(fields, 0)
	}
	b := []byte{'l', m.kind, 0, 1}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.body)))
	b = binary.LittleEndian.AppendUint32(b, call)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(fields)))
	b = append(b, fields...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return append(b, m.body...)
}

// A bus that accepts nobody holds nobody up, also when as many wait for it as it lets wait: systemd is asked directly.
func TestBusWithAFullQueue(t *testing.T) {
	h := manager(t, noneFailed)
	path := h.Path(bus)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	full := func(call func(fd int, a syscall.Sockaddr) error, how int) (int, error) {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|how, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(fd) })
		return fd, call(fd, &syscall.SockaddrUnix{Name: path})
	}
	fd, err := full(syscall.Bind, 0)
	if err = errors.Join(err, syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = full(syscall.Connect, syscall.SOCK_NONBLOCK)
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(err)
	}
	if failed, err := Failed(t.Context(), h); err != nil || len(failed) > 0 {
		t.Errorf("got %q, %v", failed, err)
	}
}

package tpm

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"
)

const canary = "AGE-SECRET-KEY-canary-71c0"

// emulated is a TPM that swtpm plays.
type emulated struct {
	t      *testing.T
	folder string
	cmd    *exec.Cmd
}

func start(t *testing.T) *emulated {
	t.Helper()
	e := &emulated{t: t, folder: t.TempDir()}
	e.on()
	t.Cleanup(e.off)
	return e
}

func (e *emulated) device() string { return filepath.Join(e.folder, "tpm") }

// on turns the TPM on, with registers as after a start.
func (e *emulated) on() {
	e.t.Helper()
	e.cmd = exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+e.folder, "--server", "type=unixio,path="+e.device(), "--flags", "startup-clear,not-need-init")
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		t, err := open(e.device())
		if err == nil {
			_, err = readPCRs(t, []int{0})
		}
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("swtpm does not answer: %v", err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (e *emulated) off() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait() // killed
	_ = os.Remove(e.device())
}

// extend measures something into a register.
func (e *emulated) extend(pcr int) {
	e.t.Helper()
	t, err := open(e.device())
	if err != nil {
		e.t.Fatal(err)
	}
	defer t.Close()
	_, err = tpm2.PCRExtend{
		PCRHandle: tpm2.AuthHandle{Handle: tpm2.TPMHandle(pcr), Auth: tpm2.PasswordAuth(nil)},
		Digests:   tpm2.TPMLDigestValues{Digests: []tpm2.TPMTHA{{HashAlg: tpm2.TPMAlgSHA256, Digest: bytes.Repeat([]byte{1}, 32)}}},
	}.Execute(t)
	if err != nil {
		e.t.Fatal(err)
	}
}

// measured measures what a start of the host measures.
func (e *emulated) measured() {
	for _, pcr := range []int{0, 4, 7} {
		e.extend(pcr)
	}
}

func (e *emulated) seal(pcrs ...int) []byte {
	e.t.Helper()
	text, err := Seal(e.device(), []byte(canary), pcrs)
	if err != nil {
		e.t.Fatal(err)
	}
	if !IsSealed(text) || bytes.Contains(text, []byte(canary)) {
		e.t.Errorf("sealed as %s", text)
	}
	return text
}

// opens says how the TPM opens a text: empty, or with what error.
func (e *emulated) opens(text []byte) string {
	e.t.Helper()
	secret, err := Unseal(moved(text, e.device()))
	switch {
	case err != nil:
		return err.Error()
	case string(secret) != canary:
		e.t.Errorf("got %q", secret)
	}
	return ""
}

// moved is a text as if it had been sealed by another device.
func moved(text []byte, device string) []byte {
	block, rest := pem.Decode(text)
	if block == nil || len(rest) > 0 {
		return text
	}
	block.Headers["Device"] = device
	return pem.EncodeToMemory(block)
}

// What is sealed opens after each start of the host, many times, and not on another host.
func TestSeal(t *testing.T) {
	e := start(t)
	e.measured()
	free, bound := e.seal(), e.seal(4, 0, 7)
	for range 3 {
		for range 4 { // leftover objects would fill the TPM, which holds three
			for name, text := range map[string][]byte{"free": free, "bound": bound} {
				if why := e.opens(text); why != "" {
					t.Errorf("%s: %s", name, why)
				}
			}
		}
		e.off()
		e.on()
		e.measured()
	}
	e.extend(4)
	if why := e.opens(bound); !strings.Contains(why, "the start of this host changed since it was sealed (PCR 4)") {
		t.Errorf("after another start: %q", why)
	}
	if why := e.opens(free); why != "" {
		t.Errorf("without registers, after another start: %s", why)
	}
	e.off()
	e.on()
	e.measured()
	if why := e.opens(bound); why != "" {
		t.Errorf("after a start as before: %s", why)
	}
	other := start(t)
	other.measured()
	for _, text := range [][]byte{free, bound} {
		if why := other.opens(text); !strings.Contains(why, "sealed to another TPM, or this one was cleared since") {
			t.Errorf("on another host: %q", why)
		}
	}
}

// A text that was changed opens nothing.
func TestDamagedTexts(t *testing.T) {
	e := start(t)
	e.measured()
	text := e.seal(0)
	block, _ := pem.Decode(text)
	change := func(f func(*sealed)) []byte {
		var s sealed
		if err := json.Unmarshal(block.Bytes, &s); err != nil {
			t.Fatal(err)
		}
		f(&s)
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: blockType, Headers: map[string]string{}, Bytes: b})
	}
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"nothing":          {nil, "is damaged"},
		"cut":              {text[:len(text)/2], "is damaged"},
		"more behind it":   {append(bytes.Clone(text), text...), "is damaged"},
		"another block":    {bytes.ReplaceAll(text, []byte(blockType), []byte("PRIVATE KEY")), "is damaged"},
		"other text":       {change(func(s *sealed) { s.Text[20] ^= 1 }), "is damaged"},
		"no text":          {change(func(s *sealed) { s.Text = nil }), "is damaged"},
		"no public part":   {change(func(s *sealed) { s.Public = nil }), "does not open it"},
		"other private":    {change(func(s *sealed) { s.Private[len(s.Private)-1] ^= 1 }), "does not open it"},
		"no registers":     {change(func(s *sealed) { s.PCRs = nil }), "does not open it"},
		"another root key": {change(func(s *sealed) { s.Root[3] ^= 1 }), "its root key is another one"},
		"other registers":  {change(func(s *sealed) { s.PCRs = map[int][]byte{1: s.PCRs[0]} }), "does not open it"},
		"odd registers":    {change(func(s *sealed) { s.PCRs[40] = nil }), "40 is not a register"},
	} {
		if why := e.opens(c.text); !strings.Contains(why, c.want) || strings.Contains(why, canary) {
			t.Errorf("%s: %q, want %q", name, why, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	if _, err := Seal("/dev/tpmrm99", nil, nil); err == nil || !strings.Contains(err.Error(), "there is no TPM at /dev/tpmrm99") {
		t.Errorf("without a TPM: %v", err)
	}
	for want, pcrs := range map[string][]int{"16 is not a register from 0 to 15": {16}, "-1 is not": {-1}, "the register 7 is named twice": {7, 0, 7}} {
		if _, err := Seal("/nowhere", nil, pcrs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", pcrs, err, want)
		}
	}
	if _, err := Seal("/dev/null", nil, nil); err == nil || !strings.Contains(err.Error(), "/dev/null is not the device of a TPM") {
		t.Errorf("another device: %v", err)
	}
	if _, err := Unseal(pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: []byte("{}")})); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("without a device: %v", err)
	}
	e := start(t)
	if _, err := Seal(e.device(), []byte(canary), []int{9}); err == nil || !strings.Contains(err.Error(), "nothing is measured into the register 9") {
		t.Errorf("a register of nothing: %v", err)
	}
	dev, err := open(e.device())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (tpm2.HierarchyChangeAuth{AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)}, NewAuth: tpm2.TPM2BAuth{Buffer: []byte("x")}}).Execute(dev); err != nil {
		t.Fatal(err)
	}
	if _, err := Seal(e.device(), []byte(canary), nil); err == nil || !strings.Contains(err.Error(), "the owner of the TPM has a password") {
		t.Errorf("a TPM that has an owner: %v", err)
	}
}

// A TPM that does not answer is given up, also by those that come after, and used again once it
// answers.
func TestSilentTPM(t *testing.T) {
	defer func(was time.Duration) { patience = was }(patience)
	patience = 200 * time.Millisecond
	silent := filepath.Join(t.TempDir(), "silent")
	l, err := net.Listen("unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	held := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			held <- c
		}
	}()
	for range 2 {
		if _, err := Seal(silent, []byte(canary), nil); err == nil || !strings.Contains(err.Error(), "the TPM has not answered for 200ms") {
			t.Errorf("got %v", err)
		}
	}
	if err := errors.Join((<-held).Close(), l.Close()); err != nil { // whoever hangs on it ends
		t.Fatal(err)
	}
	patience = 30 * time.Second
	e := start(t)
	if why := e.opens(e.seal()); why != "" {
		t.Errorf("once it answers: %s", why)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/slipway-gitops/slipway/tests/libvirt"
)

// guests are the virtual machines of the example, and their addresses.
var guests = map[string]string{"db-1": "10.77.0.11", "web-1": "10.77.0.21", "web-2": "10.77.0.22"}

// rack is a hypervisor that runs as long as the demo. It is what a test is to the
// hypervisor; what would fail a test ends the demo, as a calamity.
type rack struct {
	*libvirt.Hypervisor
	dir      string
	said     []error
	cleanups []func()
}

// calamity is a panic that Fatal makes and guarded takes.
type calamity struct{ error }

func (r *rack) Helper()                        {}
func (r *rack) Context() context.Context       { return context.Background() }
func (r *rack) Cleanup(f func())               { r.cleanups = append(r.cleanups, f) }
func (r *rack) Logf(format string, a ...any)   { fmt.Fprintf(os.Stderr, format+"\n", a...) }
func (r *rack) Failed() bool                   { return len(r.said) > 0 }
func (r *rack) Error(a ...any)                 { r.said = append(r.said, errors.New(fmt.Sprint(a...))) }
func (r *rack) Errorf(format string, a ...any) { r.said = append(r.said, fmt.Errorf(format, a...)) }
func (r *rack) Fatal(a ...any)                 { panic(calamity{errors.New(fmt.Sprint(a...))}) }
func (r *rack) Fatalf(format string, a ...any) { panic(calamity{fmt.Errorf(format, a...)}) }
func (r *rack) Skip(a ...any)                  { r.Fatal(a...) }

func (r *rack) TempDir() string {
	dir, err := os.MkdirTemp(r.dir, "rack-")
	if err != nil {
		r.Fatal(err)
	}
	return dir
}

// guarded does something that may be fatal.
func (r *rack) guarded(do func()) (err error) {
	defer func() {
		switch c := recover().(type) {
		case nil:
		case calamity:
			err = c.error
		default:
			panic(c)
		}
	}()
	do()
	return errors.Join(r.said...)
}

// end ends the hypervisor with its guests.
func (r *rack) end() {
	if r == nil {
		return
	}
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		if err := r.guarded(r.cleanups[i]); err != nil {
			fmt.Fprintln(os.Stderr, "demo:", err)
			r.said = nil
		}
	}
}

// openRack is a stage with a hypervisor, the image of its guests, and the virtual
// example in a repository.
func openRack(show *screen, keep bool) (*stage, error) {
	s := &stage{show: show, keep: keep, branch: "slipway/status/virtual", nodes: len(guests), patience: 6 * time.Minute} // guests boot on a simulated processor
	if err := s.enter("virtual", "slipway"); err != nil {
		return s, err
	}
	s.rack = &rack{dir: s.dir}
	private, public, err := makeKey()
	if err != nil {
		return s, err
	}
	var design string
	if err := s.rack.guarded(func() { design = s.raise(public) }); err != nil {
		return s, err
	}
	err = errors.Join(
		os.Mkdir(credentials, 0o700),
		os.WriteFile(credentials+"/os", fmt.Appendf(nil, "hosts: 127.0.0.1\nuse: ssh\nports: 1024-65535\nusername: ops\n\n%s", private), 0o600),
		os.WriteFile("site/lab.cue", []byte(design), 0o644),
		setFields("site/site.cue", pace("2s")))
	if err != nil {
		return s, err
	}
	if _, err := s.run(context.Background(), "git", "init", "-q", "--bare", "-b", "main", "site.git"); err != nil {
		return s, err
	}
	return s, s.makeRepository("A rack of virtual machines")
}

// raise starts the hypervisor, and gives the part of the design that says where
// everything is.
func (s *stage) raise(public string) string {
	r := s.rack
	begun := time.Now()
	s.show.step("· ", "the guests' Debian is made at the first time, which takes a minute or two, and kept in your cache")
	image, digest := libvirt.Image(r)
	s.show.proof(fmt.Sprintf("a Debian with cloud-init, %s (%.0f s)", filepath.Base(image), time.Since(begun).Seconds()))
	r.Hypervisor = libvirt.Start(r)
	r.Pool("default")
	s.show.proof("libvirtd and QEMU run, in namespaces of their own; this computer's libvirt, if it has one, is not touched")
	forwards := ""
	for name, address := range guests {
		forwards += fmt.Sprintf("\t%q: %q\n", name, r.Forward(address+":22"))
	}
	return fmt.Sprintf(place, r.Socket, r.serve(image), digest, public, forwards)
}

// serve serves a file on loopback.
func (r *rack) serve(path string) (url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { http.ServeFile(w, q, path) })}
	go server.Serve(l)
	r.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String() + "/" + filepath.Base(path)
}

// place is the example's lab.cue for the demo. A guest is reached through a port
// of loopback, since its network is the hypervisor's.
const place = `package virtual

hypervisors: "hv-1": {
	url:         "libvirt+unix:///system?socket=%s"
	accelerator: "emulation"
}

images: debian12: {
	description:    "Debian 12 with cloud-init"
	format:         "qcow2"
	url:            %q
	sha256:         %q
	installTimeout: "10m"
}

profiles: guest: system: users: ops: {keys: [%q], sudo: true}

_forwards: {
%s}

nodes: [Name=string]: endpoints: os: url: "ssh://\(_forwards[Name])"
`

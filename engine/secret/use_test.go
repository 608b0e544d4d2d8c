package secret

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestUsesAndPorts(t *testing.T) {
	for _, c := range []struct {
		head string
		r    Request
		want error
	}{
		{"", Request{Name: "c", Use: Redfish, Host: "h", Port: 443}, nil},
		{"", Request{Name: "c", Use: SSH, Host: "h", Port: 2222}, nil}, // for one release
		{"ports: 443", Request{Name: "c", Use: SSH, Host: "h", Port: 2222}, ErrPort},
		{"use: ssh", Request{Name: "c", Use: SSH, Host: "h", Port: 22}, nil},
		{"use: ssh", Request{Name: "c", Use: SSH, Host: "h", Port: 2222}, ErrPort},
		{"use: ssh", Request{Name: "c", Use: Redfish, Host: "h", Port: 443}, ErrUse},
		{"use: ssh", Request{Name: "c", Use: "", Host: "h", Port: 22}, ErrUse},
		{"use: ssh, redfish", Request{Name: "c", Use: Redfish, Host: "h", Port: 443}, nil},
		{"use: ssh, redfish", Request{Name: "c", Use: Redfish, Host: "h", Port: 22}, ErrPort},
		{"use: libvirt", Request{Name: "c", Use: Libvirt, Host: "h", Port: 16514}, nil},
		{"use: account, file", Request{Name: "c", Use: File, Host: "h", Port: 22}, nil},
		{"use: file", Request{Name: "c", Use: File, Host: "h", Port: 2222}, ErrPort},
		{"use: account", Request{Name: "c", Use: File, Host: "h", Port: 22}, ErrUse},
		{"use: file", Request{Name: "c", Use: SSH, Host: "h", Port: 22}, ErrUse},
		{"", Request{Name: "c", Use: File, Host: "h", Port: 22}, ErrUse},
		{"use: git", Request{Name: "c", Use: Git, Host: "h", Port: 443}, nil},
		{"use: git", Request{Name: "c", Use: GitHub, Host: "h", Port: 443}, ErrUse},
		{"use: github", Request{Name: "c", Use: GitHub, Host: "h", Port: 80}, ErrPort},
		{"use: redfish\nports: 8000-8100, 443", Request{Name: "c", Use: Redfish, Host: "h", Port: 8100}, nil},
		{"use: redfish\nports: 8000-8100, 443", Request{Name: "c", Use: Redfish, Host: "h", Port: 443}, nil},
		{"use: redfish\nports: 8000-8100, 443", Request{Name: "c", Use: Redfish, Host: "h", Port: 8101}, ErrPort},
		{"use: redfish\nports: 8443", Request{Name: "c", Use: Redfish, Host: "h", Port: 443}, ErrPort},
		{"use: redfish\nports: 1-65535", Request{Name: "c", Use: Redfish, Host: "h", Port: 0}, ErrPort},
		{"use: redfish", Request{Name: "c", Use: Redfish, Host: "other", Port: 443}, ErrHost},
	} {
		dir := t.TempDir()
		path := write(t, dir, "c", "hosts: h\n"+c.head+strings.Repeat("\n", min(len(c.head), 1))+"\n"+canary+"\n")
		v, err := open(t, dir).Get(c.r)
		switch {
		case !errors.Is(err, c.want) || (err == nil) != (c.want == nil):
			t.Errorf("%q, %+v: got %v, want %v", c.head, c.r, err, c.want)
		case err == nil && v.Reveal() != canary:
			t.Errorf("%q, %+v: got another secret", c.head, c.r)
		case err != nil && !strings.Contains(err.Error(), path):
			t.Errorf("%q, %+v: %q does not name the file", c.head, c.r, err)
		}
	}
}

// What a request says of a URL is what is dialled.
func TestForEndpoint(t *testing.T) {
	for endpoint, want := range map[string]Request{
		"redfish+https://192.0.2.1/redfish/v1":     {Name: "c", Use: Redfish, Host: "192.0.2.1", Port: 443},
		"redfish+https://[2001:db8::1]:8443/":      {Name: "c", Use: Redfish, Host: "2001:db8::1", Port: 8443},
		"ssh://n1.example.org":                     {Name: "c", Use: SSH, Host: "n1.example.org", Port: 22},
		"libvirt+tls://h/system?domain=a&site=b":   {Name: "c", Use: Libvirt, Host: "h", Port: 16514},
		"libvirt+ssh://ops@h/system":               {Name: "c", Use: Libvirt, Host: "h", Port: 22},
		"libvirt+unix:///system?domain=a&site=b":   {Name: "c", Use: Libvirt, Host: "", Port: 0},
		"other+strange://h":                        {Name: "c", Use: "other", Host: "h", Port: 0},
		"https://token@api.github.com/":            {Name: "c", Use: "https", Host: "api.github.com", Port: 443},
		"redfish+https://192.0.2.1:443@evil.test/": {Name: "c", Use: Redfish, Host: "evil.test", Port: 443},
	} {
		if got, err := ForEndpoint("c", endpoint); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", endpoint, got, err, want)
		}
	}
	for _, bad := range []string{"redfish+https://h:0/", "redfish+https://h:65536/", "redfish+https://h:x/", "ssh://h:-1", ":"} {
		if r, err := ForEndpoint("c", bad); err == nil {
			t.Errorf("%s gives %+v", bad, r)
		}
	}
	if r, err := For("git", Git, &url.URL{Scheme: "http", Host: "127.0.0.1"}); err != nil || r.Port != 80 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// Files without a use are told of when they are used, with the line that they lack, until they have it.
func TestUnlimited(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "os", "hosts: h\n\n"+canary)
	write(t, dir, "bmc", "hosts: h\nuse: redfish\n\n"+canary)
	write(t, dir, "unused", "hosts: h\n\n"+canary)
	s := open(t, dir)
	var told []string
	s.Watch(func(err error) {
		text := ""
		if err != nil {
			text = err.Error()
		}
		told = append(told, text)
	})
	get := func(r Request) {
		t.Helper()
		if _, err := s.Get(r); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		get(Request{Name: "bmc", Use: Redfish, Host: "h", Port: 443})
		get(Request{Name: "os", Use: SSH, Host: "h", Port: 22})
	}
	get(Request{Name: "os", Use: Libvirt, Host: "h", Port: 22})
	get(Request{Name: "os", Use: SSH, Host: "h", Port: 22})
	if len(told) != 3 || told[0] != "" || !strings.Contains(told[1], `"use: ssh" to `+path) || !strings.Contains(told[2], `"use: libvirt, ssh" to `+path) {
		t.Fatalf("told %q", told)
	}
	write(t, dir, "os", "hosts: h\nuse: ssh\n\n"+canary)
	get(Request{Name: "os", Use: SSH, Host: "h", Port: 22})
	if len(told) != 4 || told[3] != "" || s.Unlimited() != nil {
		t.Errorf("told %q, and %v is left", told, s.Unlimited())
	}
}

package base

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

func TestKeysOfAuthorizedKeys(t *testing.T) {
	for line, want := range map[string]string{
		"ssh-ed25519 AAAA ana@desk":                           "ssh-ed25519 AAAA",
		"  ssh-rsa\tBBBB":                                     "ssh-rsa BBBB",
		"sk-ssh-ed25519@openssh.com CCCC x y":                 "sk-ssh-ed25519@openssh.com CCCC",
		`from="10.0.0.1, 10.0.0.2",no-pty ssh-ed25519 AAAA a`: `from="10.0.0.1,_10.0.0.2",no-pty;ssh-ed25519 AAAA`,
		`command="echo \"ssh-rsa EVIL\"" ssh-ed25519 AAAA`:    `command="echo_\"ssh-rsa_EVIL\"";ssh-ed25519 AAAA`,
		"# ssh-ed25519 AAAA":                                  "",
		"":                                                    "",
		"ssh-ed25519":                                         "",
		"no-pty":                                              "",
		`from="unfinished ssh-ed25519 AAAA`:                   "",
		"options with-spaces ssh-ed25519 AAAA":                "",
		"ecdsa-sha2-nistp256 DDDD\r":                          "ecdsa-sha2-nistp256 DDDD",
		`environment="A=ssh-rsa B" sk-ecdsa-sha2-nistp256@x EEE`: `environment="A=ssh-rsa_B";sk-ecdsa-sha2-nistp256@x EEE`,
	} {
		if got := parseKey(line); got != want {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
	if a, b := item.Keyring(parseKeys(keyA)), item.Keyring([]string{keyA}); a != b {
		t.Errorf("the design's key is %s, and the file's %s", b, a)
	}
	if a, b := item.Keyring(parseKeys("no-pty "+keyA)), item.Keyring([]string{keyA}); a == b {
		t.Error("a key with options is like the one without")
	}
}

func TestParts(t *testing.T) {
	for text, want := range map[string]string{
		"a\n# begin slipway\nb\n# end slipway\nc\n": "a\n|b\n|c\n",
		"a":                                "a||",
		"# begin slipway\n# end slipway\n": "||",
		"# begin slipway\nb\n":             "broken",
		"# end slipway\n":                  "broken",
		"# begin slipway\n# begin slipway\n# end slipway\n":                      "broken",
		"# begin slipway\n# end slipway\n# begin slipway\nx\n# end slipway\n":    "broken",
		"# begin slipway\r\nx\r\n# end slipway\r\n":                              "|x\r\n|",
		"  # begin slipway\nindented is not ours\n":                              "  # begin slipway\nindented is not ours\n||",
		"# begin slipway\nx\n# end slipway":                                      "|x\n|",
		"# begin slipway of another\n":                                           "# begin slipway of another\n||",
		"# end slipway\n# begin slipway\n":                                       "broken",
		"# begin slipway\n# end slipway\n# end slipway\nrest\n# begin slipway\n": "broken",
	} {
		b, err := split(text)
		got := b.before + "|" + b.ours + "|" + b.after
		if err != nil {
			got = "broken"
		}
		if got != want {
			t.Errorf("%q has the parts %q, want %q", text, got, want)
		}
	}
}

func TestReceivers(t *testing.T) {
	for url, want := range map[string]receiver{
		"udp://10.0.0.5":            {url: "udp://10.0.0.5", protocol: "udp", host: "10.0.0.5", port: 514},
		"tls://logs.example.org":    {url: "tls://logs.example.org", protocol: "tls", host: "logs.example.org", port: 6514},
		"tcp://[fd00::1]:601":       {url: "tcp://[fd00::1]:601", protocol: "tcp", host: "fd00::1", port: 601},
		"tcp://[fd00::1]":           {url: "tcp://[fd00::1]", protocol: "tcp", host: "fd00::1", port: 514},
		"https://logs.example.org":  {url: "https://logs.example.org", protocol: "https", host: "logs.example.org", port: 19532},
		"http://[fd00::1]:80":       {url: "http://[fd00::1]:80", protocol: "http", host: "fd00::1", port: 80},
		"ftp://x":                   {},
		"tcp://":                    {},
		"tcp://x:0":                 {},
		"tcp://x:65536":             {},
		"tcp://x:a":                 {},
		"tcp://[x":                  {},
		"tcp://[fd00::1]x":          {},
		"tcp://x\" action(type=\"x": {},
		"tcp://x\ny":                {},
		"udp://-x":                  {},
	} {
		got, err := parseReceiver(url)
		if want.url == "" && err == nil || want.url != "" && got != want {
			t.Errorf("%q is %+v, %v; want %+v", url, got, err, want)
		}
	}
}

func TestTimesyncd(t *testing.T) {
	got := timesyncdServers([]string{"a"}, "[Time]\n NTP = b c\n#NTP=x\nFallbackNTP=y\n")
	if !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q", got)
	}
	if got := timesyncdServers([]string{"a"}, "NTP=\nNTP=d\n"); !slices.Equal(got, []string{"d"}) {
		t.Errorf("got %q", got)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("a\n# begin slipway\nb\n# end slipway\nc")
	f.Add("# begin slipway\n")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := split(text)
		if err != nil {
			return
		}
		again, err := split(b.join("10.0.0.1 x\n"))
		if err != nil || again.ours != "10.0.0.1 x\n" || again.after != b.after || strings.TrimSuffix(again.before, "\n") != strings.TrimSuffix(b.before, "\n") {
			t.Errorf("%q becomes %+v, %v", text, again, err)
		}
		if !b.there && b.join("") != text {
			t.Errorf("%q is not left as it is", text)
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add(`from="a b",no-pty ssh-ed25519 AAAA c`)
	f.Add("ssh-rsa BBBB")
	f.Fuzz(func(t *testing.T, line string) {
		k := parseKey(line)
		if k == "" {
			return
		}
		if parts := strings.Fields(k); len(parts) < 2 {
			t.Errorf("%q is %q", line, k)
		}
		if !strings.Contains(k, ";") && parseKey(k) != k {
			t.Errorf("%q is %q, and that is %q", line, k, parseKey(k))
		}
	})
}

func FuzzAccounts(f *testing.F) {
	f.Add(passwdText)
	f.Add(groupText)
	f.Add("+::::::\n:x:0:0:::\nx:y:-1:0:::\na:b:99999999999:1:::")
	f.Fuzz(func(t *testing.T, text string) {
		a := accounts{logins: parseLogins(text), groups: parseGroups(text)}
		a.hashes, a.expires = parseShadow(text)
		for _, l := range a.logins {
			if l.name == "" || l.uid < 0 || l.gid < 0 || strings.HasPrefix(l.name, "+") {
				t.Errorf("%q has the account %+v", text, l)
			}
			if got := a.further(l); !slices.IsSorted(got) {
				t.Errorf("%q: groups %q", text, got)
			}
		}
		for name, hash := range a.hashes {
			if p := password(hash); p != "none" && p != "set" && p != "locked" {
				t.Errorf("%s: %q", name, p)
			}
		}
	})
}

func FuzzChrony(f *testing.F) {
	f.Add(chronyConf)
	f.Add("POOL x\n  server y iburst\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, off) {
			return
		}
		without := disable(text)
		if enable(without) != text {
			t.Errorf("%q is not set back: %q", text, enable(without))
		}
		for line := range strings.Lines(without) {
			if word, _ := sourceLine(line); word != "" {
				t.Errorf("%q still has %q", text, line)
			}
		}
	})
}

func FuzzReceivers(f *testing.F) {
	f.Add("tls://logs.example.org:6514", "udp://10.0.0.1")
	f.Add("tcp://[fd00::1]:601", "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		var all []receiver
		var urls []string
		for _, url := range []string{a, b} {
			if r, err := parseReceiver(url); err == nil {
				all, urls = append(all, r), append(urls, url)
			}
		}
		text := rsyslogText(all, secure{"ossl", "/etc/ssl/certs/ca-certificates.crt"})
		if got, whole := forwardOf(text); !whole || !slices.Equal(got, urls) {
			t.Errorf("%q are read as %q, %v", urls, got, whole)
		}
		_, _ = forwardOf(a)
	})
}

package agent

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// The test vectors of the specification ("Unix crypt using SHA-256 and SHA-512", U.
// Drepper), as far as their settings are ones that Slipway takes: it cuts no salt and
// raises no count of rounds.
func TestSHA512CryptVectors(t *testing.T) {
	for _, c := range []struct{ setting, password, want string }{
		{"$6$saltstring", "Hello world!", "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"},
		{"$6$rounds=10000$saltstringsaltst", "Hello world!", "$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v."},
		{"$6$rounds=5000$toolongsaltstrin", "This is just a test", "$6$rounds=5000$toolongsaltstrin$lQ8jolhgVRVhY4b5pZKaysCLi0QBxGoNeKQzQ3glMhwllF7oGDZxUhx1yxdYcz/e1JSbq3y6JMxxl8audkUEm0"},
		{"$6$rounds=1400$anotherlongsalts", "a very much longer text to encrypt.  This one even stretches over morethan one line.",
			"$6$rounds=1400$anotherlongsalts$POfYwTEok97VWcjxIiSOjiykti.o/pQs.wPvMxQ6Fm7I6IoYN3CmLs66x9t0oSwbtEW7o7UmJEiDwGqd8p4ur1"},
		{"$6$rounds=77777$short", "we have a short salt string but not a short password", "$6$rounds=77777$short$WuQyW2YR.hBNpjjRhpYD/ifIw05xdfeEyQoMxIXbkvr0gge1a1x3yRULJ5CCaUeOxFmtlcGZelFl5CxtgfiAc0"},
	} {
		if got, ok := sha512crypt(c.password, c.setting); !ok || got != c.want {
			t.Errorf("%s: got\n%s, want\n%s", c.setting, got, c.want)
		}
	}
}

func TestSettingsThatAreNoSHA512Crypt(t *testing.T) {
	for _, setting := range []string{"", "$6", "$5$salt", "$y$j9T$salt", "$6$saltsaltsaltsalt1", "$6$a:b", "$6$a$b", "$6$rounds=999$a", "$6$rounds=100001$a", "$6$rounds=05000$a", "$6$rounds=5000", "$6$rounds=x$a", "!$6$salt"} {
		if got, ok := sha512crypt("x", setting); ok {
			t.Errorf("%q: got %s", setting, got)
		}
	}
}

// The hash is the one that crypt(3) of the system computes, which is what login(1)
// compares.
func TestSHA512CryptIsTheSystems(t *testing.T) {
	perl, err := exec.LookPath("perl")
	if err != nil {
		t.Fatal("perl-base, which every Debian has, calls crypt(3): ", err)
	}
	for _, password := range []string{"a", "correct horse battery staple", "pä$$wörd ", strings.Repeat("x", 63), strings.Repeat("y", 64), strings.Repeat("z", 200)} {
		setting := newSetting()
		cmd := exec.Command(perl, "-e", "binmode STDIN; local $/; print crypt(<STDIN>, $ARGV[0])", setting)
		cmd.Stdin = strings.NewReader(password)
		want, err := cmd.Output()
		got, ok := sha512crypt(password, setting)
		if err != nil || !ok || got != string(bytes.TrimSpace(want)) {
			t.Errorf("%q with %s: got\n%s, the system says\n%s (%v)", password, setting, got, want, err)
		}
	}
	if a, b := newSetting(), newSetting(); a == b {
		t.Error("two accounts have one salt")
	}
}

package docs

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slipway-gitops/slipway/tests/github"
)

// forge is a GitHub on loopback, which a page takes for the real one:
//
//	forge OWNER/NAME FILE   begins it with an empty repository that OWNER owns. git
//	                        and slipway reach it as https://github.com/OWNER/NAME; the
//	                        token of a machine account comes into FILE in the place of
//	                        github_pat_…
//	opens BRANCH TITLE      opens a pull request, as OWNER
//	says RE                 waits until the comment of the machine account matches
//	merges                  merges the pull request, as OWNER
type forge struct {
	*github.Server
	repo  *github.Repository
	owner string
	pull  *github.Pull
}

const machineAccount = "slipway-bot"

func forgeCmd(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: forge OWNER/NAME FILE")
	}
	owner, _, _ := strings.Cut(args[0], "/")
	dir := ts.MkAbs(".forge")
	ts.Check(os.Mkdir(dir, 0o700))
	f := &forge{Server: github.New(github.Config{Dir: dir}), owner: owner}
	f.Listen()
	readerOf(ts).forge = f
	f.repo = f.Repository(args[0])
	f.repo.Grant(owner, github.Admin)
	f.repo.Grant(machineAccount, github.Write)
	ca := ts.MkAbs(".forge.pem")
	ts.Check(os.WriteFile(ca, f.CA(), 0o600))
	at, err := url.Parse(f.URL())
	ts.Check(err)

	own := *at
	own.User = url.UserPassword("ana", f.Token(owner, "repo"))
	ts.Check(os.WriteFile(ts.Getenv("GIT_CONFIG_GLOBAL"), fmt.Appendf(nil, "[url %q]\n\tinsteadOf = %s/\n[http]\n\tsslCAInfo = %s\n", own.String()+"/", at, ca), 0o600))

	file := ts.MkAbs(args[1])
	text, err := os.ReadFile(file)
	ts.Check(err)
	here := strings.NewReplacer("api.github.com, github.com", "127.0.0.1\nports: "+at.Port(), "github_pat_…", f.Token(machineAccount, "repo"))
	ts.Check(os.WriteFile(file, []byte(here.Replace(string(text))), 0o600))

	r := readerOf(ts)
	r.appends = append(r.appends, [2]string{"slipway run ", fmt.Sprintf("--github-api %s --github-ca %s --repo-ca %s", f.API(), ca, ca)})
	r.instead = append(r.instead, [2]string{"https://github.com/", at.String() + "/"})
}

func opensCmd(ts *testscript.TestScript, _ bool, args []string) {
	f := readerOf(ts).forge
	f.pull = f.repo.Open(github.Proposal{Author: f.owner, Head: args[0], Title: strings.Join(args[1:], " ")})
}

func mergesCmd(ts *testscript.TestScript, _ bool, _ []string) {
	f := readerOf(ts).forge
	f.Pass(time.Minute) // a merge in the second of the comment approves nothing: nobody has read it
	f.pull.Merge(f.owner)
}

func saysCmd(ts *testscript.TestScript, _ bool, args []string) {
	f, re, text := readerOf(ts).forge, regexp.MustCompile("(?s)"+args[0]), ""
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		for _, c := range f.pull.Comments() {
			if text = c.Body(); c.Author() == machineAccount && re.MatchString(text) {
				return
			}
		}
	}
	ts.Fatalf("no comment matches %s; the last is\n%s%s", args[0], text, readerOf(ts).lastWords(ts))
}

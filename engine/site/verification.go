package site

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Outcome is what came of a check.
type Outcome string

// The outcomes. Unknown means that nobody could look, or that the last look is too old:
// neither well nor wrong.
const (
	CheckOK      Outcome = "ok"
	CheckWrong   Outcome = "wrong"
	CheckUnknown Outcome = "unknown"
)

// The kinds of checks.
const (
	CheckEndpoint    = "endpoint"    // an endpoint of a node answers
	CheckCredential  = "credential"  // it accepts the credential of the design
	CheckMachine     = "machine"     // the machine behind it is the designed one
	CheckClock       = "clock"       // the clock of the node's system is right
	CheckImage       = "image"       // an image that nodes are installed from is in the artifact store
	CheckArtifact    = "artifact"    // a file that the design names is in the artifact store
	CheckService     = "service"     // what the daemon serves to machines
	CheckRepository  = "repository"  // the Git remote, and the status branch in it
	CheckCertificate = "certificate" // a certificate that the daemon shows
	CheckProblem     = "problem"     // a problem of the site as a whole
)

// Check is one thing that was verified.
type Check struct {
	Kind string `json:"kind"`
	// Node and Subject say what it is about: a node's endpoint by its kind, or what of
	// the site. Node is empty for the site.
	Node    string  `json:"node,omitempty"`
	Role    string  `json:"role,omitempty"` // of the node
	Subject string  `json:"subject"`
	Outcome Outcome `json:"outcome"`
	// Sentence says what was seen, or why nothing is known, without a final stop.
	Sentence string `json:"sentence"`
	// Release says what to do; empty where nothing is known to help.
	Release string `json:"release,omitempty"`
	// Seen is when this was last observed; for a problem of the site, since when
	// there is one. It is zero if it never was.
	Seen time.Time `json:"seen,omitzero"`
}

// VerificationRun is a run of looks at nodes that somebody asked for.
type VerificationRun struct {
	// Since is when it began, Until when Slipway stops waiting for its looks.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// By is who asked first.
	By string `json:"by"`
	// Nodes is how many nodes it looks at. Looked is how many of them were looked at since it
	// began, also those that could not be reached.
	Nodes  int `json:"nodes"`
	Looked int `json:"looked"`
	// Joined is set in the answer to who asked during the run of somebody else.
	Joined bool `json:"joined,omitempty"`
}

// IsOver reports whether nothing of the run is waited for any more.
func (r *VerificationRun) IsOver(now time.Time) bool {
	return r.Looked >= r.Nodes || !now.Before(r.Until)
}

// VerificationRequest asks for a run.
type VerificationRequest struct {
	// Nodes are the nodes to look at; all of the site if it is empty.
	Nodes []string
	By    string
}

// Verification is what is known of a site's surroundings at a time.
type Verification struct {
	Site string    `json:"site"`
	When time.Time `json:"when"`
	// Run is the last run since the daemon started; nil before the first.
	Run    *VerificationRun `json:"run,omitempty"`
	Checks []Check          `json:"checks"`
}

// Trouble is why a look through an endpoint showed nothing.
type Trouble string

// The troubles.
const (
	// TroubleSilent is an endpoint that does not answer, or not as it should.
	TroubleSilent Trouble = "silent"
	// TroubleDenied is one that denied the credential in this look.
	TroubleDenied Trouble = "denied"
	// TroubleWithheld is one that was not asked, because the credential was denied before, there
	// or elsewhere.
	TroubleWithheld Trouble = "withheld"
	// TroubleNoCredential is one that was not asked, because there is no credential for it.
	TroubleNoCredential Trouble = "no credential"
	// TroubleNotAsked is one that was not asked for another reason.
	TroubleNotAsked Trouble = "not asked"
)

// Look is how the last look at a machine through one endpoint ended.
type Look struct {
	When time.Time
	// Endpoint is as the design had it at that time.
	Endpoint Endpoint
	// Trouble is empty if the machine was read. Sentence says what it was.
	Trouble  Trouble
	Sentence string
	// Denied is when the machine denied the credential; zero if it is not known to have.
	Denied time.Time
	// Accepted is when the machine last accepted the password of the credential, in this look or
	// before; zero if that is not known, or the credential is no password.
	Accepted time.Time
	// Since is when the machine was first read through the connection of this look, if no
	// password opened it. The login was not later.
	Since time.Time
	// Machine is what the machine says that it is; not known of an installed system.
	Machine Identity
	// Login is how Slipway logged in to the installed system; nil for other endpoints.
	Login *Login
}

// NodeLooks are the last looks at a node.
type NodeLooks struct {
	By map[EndpointKind]Look
	// Asked is when somebody asked for a look that did not end yet; zero for nobody. Within is
	// how long Slipway waits for it.
	Asked  time.Time
	Within time.Duration
}

// maxClock is by how much the clock of a system may be off, to the minute. Certificates of few
// minutes are not valid where it is off by more.
const maxClock = time.Minute

// VerifyNodes judges what the last looks at the nodes of a design show. It claims nothing that
// was not read through the endpoint that the design has now.
func VerifyNodes(design *Site, looks map[string]NodeLooks, now time.Time) []Check {
	checks := []Check{}
	for _, name := range design.NodeNames() {
		n := design.Nodes[name]
		for _, which := range slices.Sorted(maps.Keys(n.Endpoints)) {
			checks = append(checks, endpointChecks(n, which, looks[name], oldest(design, which), now)...)
		}
	}
	return checks
}

// oldest is for how long a look says something: three of the intervals at which Slipway looks by
// itself.
func oldest(design *Site, which EndpointKind) time.Duration {
	every := time.Duration(design.Rollout.ObserveEvery)
	if which == OS {
		every = max(every, 5*time.Minute)
	}
	return 3 * max(every, time.Minute)
}

func endpointChecks(n *Node, which EndpointKind, looks NodeLooks, fresh time.Duration, now time.Time) []Check {
	e, look := n.Endpoints[which], looks.By[which]
	check := func(kind string, o Outcome, format string, args ...any) Check {
		return Check{Kind: kind, Node: n.Name, Role: n.Role, Subject: string(which), Outcome: o, Sentence: fmt.Sprintf(format, args...), Seen: look.When}
	}
	unknown := func(format string, args ...any) []Check {
		checks := []Check{check(CheckEndpoint, CheckUnknown, format, args...)}
		if e.Credential != "" {
			checks = append(checks, check(CheckCredential, CheckUnknown, "credential %q was not tried: "+format, append([]any{e.Credential}, args...)...))
		}
		return checks
	}
	why := fmt.Sprintf("see `slipway why %s`", n.Name)
	switch {
	case !looks.Asked.IsZero() && now.Sub(looks.Asked) >= looks.Within:
		return unknown("not looked at within %s", looks.Within)
	case !looks.Asked.IsZero():
		return unknown("the look that was asked for did not end yet")
	case look.When.IsZero():
		return unknown("not looked at since the daemon started")
	case !reflect.DeepEqual(look.Endpoint, e):
		return unknown("not looked at since the design changed the endpoint")
	case now.Sub(look.When) > fresh:
		return unknown("not looked at lately")
	case look.Trouble == TroubleNotAsked:
		return unknown("%s", look.Sentence)
	case look.Trouble == TroubleSilent:
		checks := unknown("the endpoint could not be read")
		checks[0] = check(CheckEndpoint, CheckWrong, "%s", look.Sentence)
		checks[0].Release = why
		return checks
	case look.Trouble != "":
		return credentialTrouble(e, look, check)
	}
	checks := []Check{check(CheckEndpoint, CheckOK, "it answers")}
	if e.Credential != "" || look.Login != nil {
		checks = append(checks, credentialCheck(e, look, check))
	}
	if which == Manager {
		checks = append(checks, machineCheck(n, look, check))
	}
	if l := look.Login; l != nil && l.Clock != 0 {
		c := check(CheckClock, CheckOK, "its clock was off by %s at the last login", time.Duration(l.Clock).Abs())
		if time.Duration(l.Clock).Abs() > maxClock {
			c.Outcome, c.Release = CheckWrong, "correct the time servers of the system, or let it reach them"
		}
		checks = append(checks, c)
	}
	return checks
}

// credentialTrouble are the checks of an endpoint that was not read because of its credential.
func credentialTrouble(e Endpoint, look Look, check func(string, Outcome, string, ...any) Check) []Check {
	endpoint := check(CheckEndpoint, CheckUnknown, "not asked, because of its credential")
	if look.Trouble == TroubleDenied {
		endpoint = check(CheckEndpoint, CheckOK, "it answers, and denied the credential")
	}
	credential := check(CheckCredential, CheckUnknown, "%s", look.Sentence)
	switch {
	case look.Trouble == TroubleNoCredential:
		credential.Outcome = CheckWrong
	case !look.Denied.IsZero():
		credential = check(CheckCredential, CheckWrong, "credential %q was denied at %s: %s", e.Credential, stamp(look.Denied), look.Sentence)
		credential.Seen = look.Denied
	}
	return []Check{endpoint, credential}
}

// credentialCheck says when an endpoint that was read accepted who Slipway is. A look through an open
// session sends no password, and shows nothing of it.
func credentialCheck(e Endpoint, look Look, check func(string, Outcome, string, ...any) Check) Check {
	at, text := look.Since, fmt.Sprintf("the machine was read with credential %q since %s", e.Credential, stamp(look.Since))
	l := look.Login
	isLogin := l != nil && l.By != ""
	byPassword := !look.Accepted.IsZero() && (!isLogin || l.By == ByPassword)
	if byPassword {
		at, text = look.Accepted, fmt.Sprintf("credential %q was accepted at %s", e.Credential, stamp(look.Accepted))
	}
	if at.IsZero() {
		return check(CheckCredential, CheckUnknown, "the machine was read with a session that was opened before; credential %q was not tried", e.Credential)
	}
	if isLogin {
		text = "logged in by " + l.By
		if l.Account != "" {
			text += " as " + Printable(l.Account)
		}
		if byPassword {
			text += " at " + stamp(at)
		} else {
			text += ", and read since " + stamp(at)
		}
		if l.Refused != "" {
			text += "; not by a certificate of the site: " + Printable(l.Refused)
		}
	}
	c := check(CheckCredential, CheckOK, "%s", text)
	c.Seen = at
	return c
}

func stamp(t time.Time) string { return t.UTC().Format(time.DateTime + "Z") }

func machineCheck(n *Node, look Look, check func(string, Outcome, string, ...any) Check) Check {
	switch designed := n.Machine(); {
	case !look.Machine.Known():
		return check(CheckMachine, CheckUnknown, "it does not say which machine it is")
	case !designed.Known():
		return check(CheckMachine, CheckUnknown, "%s answers, and the design does not say which machine this is", look.Machine)
	case !designed.Contradicts(look.Machine) && !designed.Matches(look.Machine):
		return check(CheckMachine, CheckUnknown, "%s answers, which does not say all by which the design tells the machine", look.Machine)
	case !designed.Matches(look.Machine):
		c := check(CheckMachine, CheckWrong, "another machine answers: %s, and not %s", look.Machine, designed)
		c.Release = "correct the address or the cables; if the machine was replaced, name the new one in the design"
		return c
	}
	return check(CheckMachine, CheckOK, "it is the designed machine")
}

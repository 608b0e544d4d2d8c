package lab

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// FaultKind is a way in which a BMC misbehaves.
type FaultKind string

// The kinds of fault; faults says what each is.
const (
	FaultNone FaultKind = ""

	FaultBusy        FaultKind = "busy"
	FaultBusyDate    FaultKind = "busy-date"
	FaultTooMany     FaultKind = "too-many"
	FaultHang        FaultKind = "hang"
	FaultSlow        FaultKind = "slow"
	FaultDrip        FaultKind = "drip"
	FaultTruncated   FaultKind = "truncated"
	FaultHTML        FaultKind = "html"
	FaultServerError FaultKind = "server-error"
	FaultGateway     FaultKind = "gateway"
	FaultForbidden   FaultKind = "forbidden"
	FaultMissing     FaultKind = "missing"
	FaultRefuse      FaultKind = "refuse"
	FaultExpired     FaultKind = "expired"
	FaultOtherCert   FaultKind = "other-cert"
	FaultSelfSigned  FaultKind = "self-signed"
	FaultSlowTLS     FaultKind = "slow-tls"

	FaultUnauthorized FaultKind = "unauthorized"
	FaultSlowLogin    FaultKind = "slow-login"
	FaultSessionLimit FaultKind = "session-limit"
	FaultLogoutFails  FaultKind = "logout-fails"
	FaultLockout      FaultKind = "lockout"

	FaultPrecondition         FaultKind = "precondition"
	FaultPreconditionRequired FaultKind = "precondition-required"
	FaultETagWeak             FaultKind = "etag-weak"
	FaultETagBare             FaultKind = "etag-bare"
	FaultETagEmpty            FaultKind = "etag-empty"
	FaultETagGzip             FaultKind = "etag-gzip"
	FaultNotAcceptable        FaultKind = "not-acceptable"
	FaultNoExpand             FaultKind = "no-expand"
	FaultNoBody               FaultKind = "no-body"
	FaultRedirect             FaultKind = "redirect"
	FaultSlash                FaultKind = "slash"
	FaultNoSlash              FaultKind = "no-slash"
	FaultInfoObject           FaultKind = "info-object"
	FaultAbsolute             FaultKind = "absolute"
	FaultElsewhere            FaultKind = "elsewhere"
	FaultNotReady             FaultKind = "not-ready"
	FaultNoEffect             FaultKind = "no-effect"

	FaultTask         FaultKind = "task"
	FaultTaskFails    FaultKind = "task-fails"
	FaultTaskVanishes FaultKind = "task-vanishes"
	FaultTaskLate     FaultKind = "task-late"
	FaultTaskNew      FaultKind = "task-new"
	FaultTaskRunning  FaultKind = "task-running"
	FaultNoLocation   FaultKind = "no-location"

	FaultNoShutdown   FaultKind = "no-shutdown"
	FaultResetIgnored FaultKind = "reset-ignored"
	FaultResetLate    FaultKind = "reset-late"
	FaultResetsHidden FaultKind = "resets-hidden"
	FaultOnConflict   FaultKind = "on-conflict"
	FaultAlready      FaultKind = "already"
	FaultState        FaultKind = "state"

	FaultPOST             FaultKind = "post"
	FaultOverrideLost     FaultKind = "override-lost"
	FaultOverrideIgnored  FaultKind = "override-ignored"
	FaultOverrideSticks   FaultKind = "override-sticks"
	FaultOrderRefused     FaultKind = "order-refused"
	FaultModeUnknown      FaultKind = "mode-unknown"
	FaultUnchangedRefused FaultKind = "unchanged-refused"
	FaultFullBoot         FaultKind = "full-boot"
	FaultFutureState      FaultKind = "future-state"
	FaultSettingsElse     FaultKind = "settings-else"
	FaultOnceUnlessSent   FaultKind = "once-unless-sent"
	FaultModeFlips        FaultKind = "mode-flips"
	FaultUsbCd            FaultKind = "usb-cd"
	FaultPxeRenamed       FaultKind = "pxe-renamed"
	FaultMediumFirst      FaultKind = "medium-first"
	FaultOnceLasts        FaultKind = "once-lasts"
	FaultEmulator         FaultKind = "emulator"

	FaultInsertError    FaultKind = "insert-error"
	FaultStaleInserted  FaultKind = "stale-inserted"
	FaultNotMapped      FaultKind = "not-mapped"
	FaultEjectHidden    FaultKind = "eject-hidden"
	FaultTransferNeeded FaultKind = "transfer-needed"
	FaultFlagsRefused   FaultKind = "flags-refused"
	FaultFlagsNeeded    FaultKind = "flags-needed"
	FaultEjectBody      FaultKind = "eject-body"
	FaultQueryRefused   FaultKind = "query-refused"
	FaultLicense        FaultKind = "license"
	FaultClock          FaultKind = "clock"
	FaultSlotWithout    FaultKind = "slot-without"

	FaultPendingShown FaultKind = "pending-shown"
	FaultBIOSDropped  FaultKind = "bios-dropped"
	FaultBIOSFails    FaultKind = "bios-fails"
	FaultBIOSNowhere  FaultKind = "bios-nowhere"
	FaultNoRegistry   FaultKind = "no-registry"

	FaultPasswordEchoed FaultKind = "password-echoed"
	FaultPasswordBeside FaultKind = "password-beside"
	FaultAccountsLate   FaultKind = "accounts-late"

	FaultWrongUUID  FaultKind = "wrong-uuid"
	FaultUUIDSwap   FaultKind = "uuid-swapped"
	FaultUUIDUpper  FaultKind = "uuid-upper"
	FaultTwoSystems FaultKind = "two-systems"
	FaultGarbled    FaultKind = "garbled"
)

// met is when a fault is met.
type met string

const (
	connecting met = "connecting" // in connecting
	answering  met = "answering"  // in the answer to a request, whatever it asks
	asking     met = "asking"     // in the answer to some requests
	living     met = "living"     // in what the machine does by itself
)

// faults is what every kind of fault is.
var faults = []struct {
	kind FaultKind
	met  met
	does string
}{
	{FaultBusy, answering, "answers 503 with Retry-After in seconds"},
	{FaultBusyDate, answering, "answers 503 with Retry-After as a date"},
	{FaultTooMany, answering, "answers 429 with Retry-After"},
	{FaultHang, answering, "accepts a request and never answers"},
	{FaultSlow, answering, "answers late, by the delay"},
	{FaultDrip, answering, "sends its answer byte by byte over the delay"},
	{FaultTruncated, answering, "breaks off in the middle of its answer"},
	{FaultHTML, answering, "shows a login page instead of Redfish"},
	{FaultServerError, answering, "answers 500 to everything"},
	{FaultGateway, answering, "answers 504 to everything"},
	{FaultForbidden, answering, "answers 403 to everything"},
	{FaultMissing, answering, "answers 404 to what is there"},
	{FaultRefuse, connecting, "closes every connection"},
	{FaultExpired, connecting, "has a certificate that has expired"},
	{FaultOtherCert, connecting, "has a certificate of another authority"},
	{FaultSelfSigned, connecting, "has a certificate that it signed itself"},
	{FaultSlowTLS, connecting, "takes the delay for a TLS handshake"},

	{FaultUnauthorized, asking, "answers 401 although the session is young, and ends it"},
	{FaultSlowLogin, asking, "takes the delay for a login"},
	{FaultSessionLimit, asking, "has no room for a session"},
	{FaultLogoutFails, asking, "answers 500 to a logout, and keeps the session"},
	{FaultLockout, living, "locks an account for the delay after three bad logins"},

	{FaultPrecondition, asking, "answers 412 to a write with If-Match"},
	{FaultPreconditionRequired, asking, "answers 428 to a change without If-Match"},
	{FaultETagWeak, asking, "has weak ETags, and answers 412 unless they come back without W/"},
	{FaultETagBare, asking, "has ETags without quotes"},
	{FaultETagEmpty, asking, "has ETags of nothing, and answers 412 to them"},
	{FaultETagGzip, asking, "adds -gzip to ETags where compression is accepted, and answers 412 to it"},
	{FaultNotAcceptable, asking, "answers 406 to an answer wanted without compression"},
	{FaultNoExpand, asking, "answers 501 to $expand, which it says it has"},
	{FaultNoBody, asking, "answers 204 to a change"},
	{FaultRedirect, asking, "redirects to the path with a slash at its end"},
	{FaultSlash, asking, "knows a path only with a slash at its end"},
	{FaultNoSlash, asking, "knows a path only without a slash at its end"},
	{FaultInfoObject, asking, "has an object for the list of extended information"},
	{FaultAbsolute, asking, "has its links with scheme and host"},
	{FaultElsewhere, asking, "has its links with a host that is not its own"},
	{FaultNotReady, asking, "answers SYS518 to a write: not ready"},
	{FaultNoEffect, asking, "accepts a write and does nothing"},

	{FaultTask, asking, "answers 202 with a task that ends after the delay"},
	{FaultTaskFails, asking, "answers 202 with a task that ends in an exception"},
	{FaultTaskVanishes, living, "forgets a task as soon as it has ended"},
	{FaultTaskLate, living, "answers 404 to the first three looks at a task"},
	{FaultTaskNew, living, "has a task New and Starting at the first looks at it"},
	{FaultTaskRunning, living, "shows a task as running that has ended"},
	{FaultNoLocation, asking, "answers 202 without saying where the task is"},

	{FaultNoShutdown, living, "has a system that ignores a graceful shutdown"},
	{FaultResetIgnored, asking, "accepts a reset and does nothing"},
	{FaultResetLate, asking, "begins an accepted reset only after the delay"},
	{FaultResetsHidden, asking, "lists the resets only in an ActionInfo"},
	{FaultOnConflict, asking, "answers 409 to On until the delay after it went off"},
	{FaultAlready, asking, "answers 409 to a reset that would change nothing"},
	{FaultState, asking, "answers InvalidOperationForSystemState to a reset"},

	{FaultPOST, asking, "answers UnableToModifyDuringSystemPOST to boot settings"},
	{FaultOverrideLost, asking, "accepts boot settings and does not keep them"},
	{FaultOverrideIgnored, living, "boots as if there were no override"},
	{FaultOverrideSticks, living, "keeps an override for once after its boot"},
	{FaultOrderRefused, asking, "shows a boot order and does not have it changed"},
	{FaultModeUnknown, asking, "does not know BootSourceOverrideMode"},
	{FaultUnchangedRefused, asking, "refuses boot settings that are so already"},
	{FaultFullBoot, asking, "refuses an override without all of enabled, target and mode"},
	{FaultFutureState, asking, "takes boot settings only at a settings object, with If-Match"},
	{FaultSettingsElse, asking, "has a settings object that takes no boot settings"},
	{FaultOnceUnlessSent, asking, "makes an override one for once unless it is enabled again"},
	{FaultModeFlips, asking, "changes the boot mode with the target"},
	{FaultUsbCd, asking, "calls its virtual CD UsbCd"},
	{FaultPxeRenamed, asking, "turns the target Pxe into UefiBootNext"},
	{FaultMediumFirst, asking, "refuses an override to a CD while no medium is in"},
	{FaultOnceLasts, asking, "makes an override for once one for all boots"},
	{FaultEmulator, asking, "has overrides as sushy-tools on libvirt: for all boots, to what is there, and never disabled"},

	{FaultInsertError, asking, "answers 500 to an insertion that it has carried out"},
	{FaultStaleInserted, asking, "shows a medium that was ejected"},
	{FaultNotMapped, living, "shows a medium that the machine cannot boot"},
	{FaultEjectHidden, asking, "has no EjectMedia while a slot is empty"},
	{FaultTransferNeeded, asking, "wants a TransferProtocolType, and a user with a password"},
	{FaultFlagsRefused, asking, "does not take Inserted and WriteProtected"},
	{FaultFlagsNeeded, asking, "wants Inserted and WriteProtected"},
	{FaultEjectBody, asking, "wants a body to eject, if an empty object"},
	{FaultQueryRefused, asking, "takes no image whose address has a ? or &"},
	{FaultLicense, asking, "answers 403 to media: a license is missing"},
	{FaultClock, living, "has a clock at 1970, so that no certificate of an image server is valid"},
	{FaultSlotWithout, asking, "has a first slot into which nothing can be inserted"},

	{FaultPendingShown, asking, "shows pending settings as current"},
	{FaultBIOSDropped, living, "applies settings without effect"},
	{FaultBIOSFails, living, "ends the applying of settings with errors"},
	{FaultBIOSNowhere, asking, "does not say where its settings object is, and takes settings at the resource itself"},
	{FaultNoRegistry, asking, "answers 404 to the attribute registry"},

	{FaultPasswordBeside, asking, "refuses another role or state of an account without its password beside it"},
	{FaultPasswordEchoed, asking, "refuses a password, and repeats it in its answer"},
	{FaultAccountsLate, asking, "leaves the newest account out of the list"},

	{FaultWrongUUID, living, "has another machine's UUID and serial number"},
	{FaultUUIDSwap, asking, "has the first three groups of the UUID in the other byte order"},
	{FaultUUIDUpper, asking, "has its UUID in upper case"},
	{FaultTwoSystems, living, "lists another system before its own"},
	{FaultGarbled, asking, "has texts where numbers belong, null for lists and impossible dates"},
}

// FaultKinds lists the kinds.
var FaultKinds = func() (kinds []FaultKind) {
	for _, f := range faults {
		kinds = append(kinds, f.kind)
	}
	return kinds
}()

// FaultText says what a kind of fault does.
func FaultText(kind FaultKind) string {
	for _, f := range faults {
		if f.kind == kind {
			return f.does
		}
	}
	return ""
}

// Fault is something that is wrong with a machine.
type Fault struct {
	Kind FaultKind `json:"kind,omitempty"`
	// RetryAfter is what a busy BMC asks for, in seconds.
	RetryAfter int `json:"retryAfter,omitempty"`
	// Delay is how long a fault takes that takes time, at speed 1.
	Delay site.Duration `json:"delay,omitempty"`
	// Times is how often it is met before it heals by itself; 0 is until it is
	// healed.
	Times int `json:"times,omitempty"`
}

// ParseFault reads a kind, and after a colon how often it is met: "busy:1".
// "none" and "" heal.
func ParseFault(s string) (Fault, error) {
	if s == "" || s == "none" {
		return Fault{}, nil
	}
	name, times, limited := strings.Cut(s, ":")
	n, err := strconv.Atoi(times)
	if limited && (err != nil || n < 1) {
		return Fault{}, fmt.Errorf("a fault is met a whole number of times, %q is none", times)
	}
	if !slices.Contains(FaultKinds, FaultKind(name)) {
		return Fault{}, fmt.Errorf("there is no fault %q; there are: %v", name, FaultKinds)
	}
	return Fault{Kind: FaultKind(name), RetryAfter: 2, Delay: delayOf(FaultKind(name)), Times: n}, nil
}

// delayOf is how long a fault takes unless it is told otherwise.
func delayOf(kind FaultKind) site.Duration {
	switch kind {
	case FaultOnConflict:
		return site.Duration(time.Minute)
	case FaultLockout:
		return site.Duration(30 * time.Second)
	case FaultSlowLogin:
		return site.Duration(12 * time.Second)
	}
	return site.Duration(10 * time.Second)
}

// met is when a fault is met.
func (f Fault) met() met {
	for _, of := range faults {
		if of.kind == f.Kind {
			return of.met
		}
	}
	return ""
}

// ofConnections says whether a fault is met in connecting.
func (f Fault) ofConnections() bool { return f.met() == connecting }

// ofRequests says whether a fault is met in single requests.
func (f Fault) ofRequests() bool {
	return f.met() == answering || f.met() == asking || f.Kind == FaultRefuse
}

// disturb answers in a fault's way, and says whether it did.
func (m *Machine) disturb(f Fault, w http.ResponseWriter, r *http.Request) bool {
	say := func(status int, id string, args ...string) {
		say(w, status, m.kind.speech.fault(m.kind.speech.info(id, args...)))
	}
	switch f.Kind {
	case FaultBusy:
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		say(http.StatusServiceUnavailable, "ServiceTemporarilyUnavailable", strconv.Itoa(f.RetryAfter))
	case FaultBusyDate:
		w.Header().Set("Retry-After", time.Now().Add(time.Duration(f.RetryAfter)*time.Second).UTC().Format(http.TimeFormat))
		say(http.StatusServiceUnavailable, "ServiceTemporarilyUnavailable", strconv.Itoa(f.RetryAfter))
	case FaultTooMany:
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		say(http.StatusTooManyRequests, "ServiceTemporarilyUnavailable", strconv.Itoa(f.RetryAfter))
	case FaultHang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case FaultRefuse:
		panic(http.ErrAbortHandler) // closes the connection without an answer
	case FaultHTML:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write([]byte("<!DOCTYPE html><html><head><title>Log in</title></head><body><form>…</form></body></html>"))
	case FaultServerError:
		say(http.StatusInternalServerError, "InternalError")
	case FaultGateway:
		say(http.StatusGatewayTimeout, "InternalError")
	case FaultForbidden:
		say(http.StatusForbidden, "InsufficientPrivilege")
	case FaultMissing:
		say(http.StatusNotFound, "ResourceMissingAtURI", r.URL.Path)
	default:
		return false
	}
	return true
}

// spend counts down a fault that was met.
func (m *Machine) spend(f Fault) { locked(m, func() any { m.spendLocked(f); return nil }) }

func (m *Machine) spendLocked(f Fault) {
	if m.fault.Kind != f.Kind || m.fault.Times == 0 {
		return
	}
	if m.fault.Times--; m.fault.Times == 0 {
		m.fault = Fault{}
	}
}

// meets says whether the request meets a fault, and counts it down.
func (x *exchange) meets(kind FaultKind) bool {
	if x.fault.Kind != kind {
		return false
	}
	x.spend(x.fault)
	return true
}

// suffersLocked says whether the machine has a fault, and counts it down.
func (m *Machine) suffersLocked(kind FaultKind) bool {
	if m.fault.Kind != kind {
		return false
	}
	m.spendLocked(m.fault)
	return true
}

// chance is faults that any machine may meet.
type chance struct {
	rate   float64
	faults []Fault
}

// SetFaultRate lets a share of all requests, 0 to 1, meet one of the faults,
// a 503 unless others are given. The seed, the machine and the number of its
// request decide, so a machine that is asked the same meets the same. A fault
// of the machine itself goes before.
func (f *Fleet) SetFaultRate(rate float64, faults ...Fault) error {
	if len(faults) == 0 {
		faults = []Fault{{Kind: FaultBusy, RetryAfter: 1}}
	}
	for _, fault := range faults {
		if !fault.ofRequests() {
			return fmt.Errorf("the fault %q is not one of single answers", fault.Kind)
		}
	}
	if rate < 0 || rate > 1 {
		return fmt.Errorf("a rate of faults is from 0 to 1, not %v", rate)
	}
	f.chance.Store(&chance{rate, slices.Clone(faults)})
	return nil
}

// faultOf is what a machine's nth request meets.
func (f *Fleet) faultOf(m *Machine, n int) Fault {
	own := locked(m, func() Fault { return m.fault })
	c := f.chance.Load()
	if own.ofRequests() || c == nil || f.draw("fault "+m.config.Name, n) >= c.rate {
		return own
	}
	return c.faults[int(f.draw("kind "+m.config.Name, n)*float64(len(c.faults)))]
}

// lies says whether a write is to be accepted without effect.
func (x *exchange) lies() bool { return x.meets(FaultNoEffect) }

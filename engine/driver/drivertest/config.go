package drivertest

import (
	"time"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Config is how the machines of a fleet behave. The zero value answers at
// once; inside a testing/synctest bubble the durations are virtual.
type Config struct {
	// Latency is what every request takes; Reads and Writes are what those
	// that ask and those that change take instead, if they are set, and Inside
	// what those to the installed system do.
	Latency               time.Duration
	Reads, Writes, Inside Range
	// PowerTime is the time from a power request to its effect.
	PowerTime time.Duration
	// PostTime is the time from power-on to booting from a medium or the disk,
	// and to staged firmware and settings being in effect.
	PostTime time.Duration
	// InstallTime is the time from booting a medium to the installer
	// powering the machine off.
	InstallTime time.Duration
	// OSTime is the time from booting to the installed system answering.
	OSTime time.Duration
	// StepTime is what the steps take that stage something or work inside the
	// system, beside their requests.
	StepTime map[site.Action]time.Duration
	// NeedsBoot are the facets inside of which a step has its effect at the next
	// boot, as upgrades of a kernel have.
	NeedsBoot []site.Facet
	// GraceTime is how long a system may take to shut down before its power is
	// cut.
	GraceTime time.Duration
	// Flaky is the share of requests that fail: refused as busy, timed out, or
	// carried out and not answered.
	Flaky float64
	// Seed is what latencies and failures are drawn from.
	Seed uint64
	// Manufacturer and Model are what the machine says it is; "Fake" and
	// "Memory" if empty.
	Manufacturer, Model string
	// Secret is the credential that machines accept; the zero value accepts
	// any.
	Secret secret.Value
}

// Range is what a duration is drawn from, each time anew.
type Range struct{ From, To time.Duration }

// flakeTime is after how long a request without an answer is given up.
const flakeTime = 10 * time.Second

// Fault is something that is wrong with a machine.
type Fault string

// The faults.
const (
	Healthy      Fault = ""
	Unreachable  Fault = "unreachable"
	Busy         Fault = "busy"          // with a Retry-After of BusySeconds
	Denied       Fault = "denied"        // whatever the credential
	Lies         Fault = "lies"          // Apply succeeds and does nothing
	WrongMachine Fault = "wrong machine" // another UUID and serial answer
	Hangs        Fault = "hangs"         // until the context or the fault ends
	Garbled      Fault = "garbled"       // an answer that makes no sense
	Rebellious   Fault = "rebellious"    // the system does not shut down when asked to
	// Forgetful machines take changes of their firmware and settings, boot for
	// them, and are as before.
	Forgetful Fault = "forgetful"
	// Failing ones do the same, and then say that it failed.
	Failing Fault = "failing"
)

// BusySeconds is the Retry-After of a busy machine.
const BusySeconds = 20

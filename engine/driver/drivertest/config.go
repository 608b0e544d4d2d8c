package drivertest

import (
	"time"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Config is how the machines of a fleet behave. With the zero value they answer
// at once. Inside a testing/synctest bubble the durations are virtual.
type Config struct {
	// Latency is how long every request takes. Reads and Writes replace it for
	// reading and changing requests, and Inside for requests to the installed
	// system, if they are set.
	Latency               time.Duration
	Reads, Writes, Inside Range
	// PowerTime is the time from a power request to its effect.
	PowerTime time.Duration
	// PostTime is the time from power-on until the machine boots from a medium
	// or the disk, and until staged firmware and settings are in effect.
	PostTime time.Duration
	// InstallTime is the time from booting a medium to the installer
	// powering the machine off.
	InstallTime time.Duration
	// OSTime is the time from booting to the installed system answering.
	OSTime time.Duration
	// StepTime is how long steps take that stage something or work inside the
	// system, in addition to their requests.
	StepTime map[site.Action]time.Duration
	// NeedsBoot are the facets inside whose steps take effect at the next boot,
	// such as kernel upgrades.
	NeedsBoot []site.Facet
	// GraceTime is how long a system may take to shut down before its power is
	// cut.
	GraceTime time.Duration
	// Flaky is the share of requests that fail: refused as busy, timed out, or
	// carried out without an answer.
	Flaky float64
	// Seed is the random seed for latencies and failures.
	Seed uint64
	// Manufacturer and Model are what the machine reports; "Fake" and "Memory"
	// if empty.
	Manufacturer, Model string
	// Secret is the credential that machines accept; the zero value accepts
	// any.
	Secret secret.Value
}

// Range is the range from which a duration is drawn each time.
type Range struct{ From, To time.Duration }

// flakeTime is when the client gives up on a request without an answer.
const flakeTime = 10 * time.Second

// Fault is something that is wrong with a machine.
type Fault string

// The faults.
const (
	Healthy      Fault = ""
	Unreachable  Fault = "unreachable"
	Busy         Fault = "busy"          // with a Retry-After of BusySeconds
	Denied       Fault = "denied"        // for any credential
	Lies         Fault = "lies"          // Apply succeeds and does nothing
	WrongMachine Fault = "wrong machine" // another UUID and serial answer
	Hangs        Fault = "hangs"         // until the context or the fault ends
	Garbled      Fault = "garbled"       // an answer that makes no sense
	Rebellious   Fault = "rebellious"    // the system does not shut down when asked to
	// Forgetful machines accept changes of their firmware and settings, boot
	// for them, and stay as before.
	Forgetful Fault = "forgetful"
	// Failing machines do the same, and then report that it failed.
	Failing Fault = "failing"
)

// BusySeconds is the Retry-After of a busy machine.
const BusySeconds = 20

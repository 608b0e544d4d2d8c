package lab

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

const (
	eventsPath        = root + "/EventService"
	subscriptionsPath = eventsPath + "/Subscriptions"
)

// subscription is somebody who wants to hear what the machine's log does.
type subscription struct {
	id                   int
	destination, context string
}

// maxSubscriptions is how many a BMC has room for.
const maxSubscriptions = 16

// deliveryTime is how long a BMC waits for a subscriber to take an event.
const deliveryTime = 10 * time.Second

// growEvents adds the service that sends events to subscribers.
func (p *personality) growEvents(l layout) {
	l.singles[eventsPath] = func(*Machine) body {
		return p.thing("EventService", eventsPath, "Event Service", body{
			"ServiceEnabled": true, "Status": healthy(), "EventFormatTypes": []string{"Event"}, "RegistryPrefixes": []string{"Base"},
			"DeliveryRetryAttempts": 0, "DeliveryRetryIntervalSeconds": 0, "Subscriptions": ref(subscriptionsPath),
			"Actions": body{"#EventService.SubmitTestEvent": body{"target": eventsPath + "/Actions/EventService.SubmitTestEvent"}},
		})
	}
	l.lists[subscriptionsPath] = list{"EventDestination", func(m *Machine) []string {
		return locked(m, func() (ids []string) {
			for _, s := range m.subscriptions {
				ids = append(ids, strconv.Itoa(s.id))
			}
			return ids
		})
	}, func(m *Machine, id, at string) body {
		s := m.subscription(id)
		return p.thing("EventDestination", at, "Subscription "+id, body{
			"Destination": s.destination, "Context": s.context, "Protocol": "Redfish", "SubscriptionType": "RedfishEvent", "EventFormatType": "Event",
		})
	}}
}

func (m *Machine) subscription(id string) subscription {
	return locked(m, func() subscription {
		for _, s := range m.subscriptions {
			if strconv.Itoa(s.id) == id {
				return s
			}
		}
		return subscription{}
	})
}

// subscribe makes a subscription (DSP0266, POST to subscription collection).
func (x *exchange) subscribe() {
	b, ok := x.read()
	if !ok {
		return
	}
	for _, name := range []string{"Destination", "Protocol"} {
		if b[name] == nil {
			x.fail(http.StatusBadRequest, "PropertyMissing", name)
			return
		}
	}
	var s subscription
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if m := x.subscriptionProperty(name, b[name], &s); m != nil {
			x.failWith(http.StatusBadRequest, m)
			return
		}
	}
	made := locked(x.Machine, func() bool {
		if len(x.subscriptions) >= maxSubscriptions {
			return false
		}
		x.counts.Subscriptions++
		s.id = x.counts.Subscriptions
		x.subscriptions = append(slices.Clone(x.subscriptions), s)
		return true
	})
	if !made {
		x.fail(http.StatusServiceUnavailable, "CreateLimitReachedForResource")
		return
	}
	at := subscriptionsPath + "/" + strconv.Itoa(s.id)
	x.w.Header().Set("Location", at)
	x.reply(http.StatusCreated, x.resource(at))
}

// subscriptionProperty sets a property of a subscription; it gives the message
// about one that cannot be set.
func (x *exchange) subscriptionProperty(name string, v any, s *subscription) body {
	text, isText := v.(string)
	switch name {
	case "Destination":
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return x.kind.speech.info("PropertyValueFormatError", shown(v), name)
		}
		s.destination = text
	case "Context":
		if !isText {
			return x.kind.speech.info("PropertyValueTypeError", shown(v), name)
		}
		s.context = text
	case "Protocol", "SubscriptionType", "EventFormatType":
		if may := map[string]string{"Protocol": "Redfish", "SubscriptionType": "RedfishEvent", "EventFormatType": "Event"}[name]; v != may {
			return x.kind.speech.info("PropertyValueNotInList", shown(v), name)
		}
	default:
		return x.kind.speech.info("PropertyUnknown", name)
	}
	return nil
}

// unsubscribe deletes a subscription.
func (x *exchange) unsubscribe() {
	if !x.current(x.resource(x.path)) {
		return
	}
	locked(x.Machine, func() any {
		x.subscriptions = slices.DeleteFunc(slices.Clone(x.subscriptions), func(s subscription) bool {
			return subscriptionsPath+"/"+strconv.Itoa(s.id) == x.path
		})
		return nil
	})
	x.done()
}

// submitTestEvent is the action EventService.SubmitTestEvent.
func (x *exchange) submitTestEvent(string) {
	b, ok := x.read()
	if !ok {
		return
	}
	id, _ := b["MessageId"].(string)
	text, _ := b["Message"].(string)
	locked(x.Machine, func() any {
		x.tellLocked(body{"MessageId": or(id, x.kind.speech.base+".Success"), "Message": or(text, "A test event."), "MessageSeverity": "OK"})
		return nil
	})
	x.done()
}

// tellLocked sends an event to all subscribers (DSP0268, Event).
func (m *Machine) tellLocked(record body) {
	if len(m.subscriptions) == 0 || m.fleet.ctx.Err() != nil {
		return
	}
	m.counts.Events++
	id := strconv.Itoa(m.counts.Events)
	record["MemberId"], record["EventId"], record["EventTimestamp"] = "0", id, now()
	for _, s := range m.subscriptions {
		event := body{
			"@odata.type": "#Event.v1_9_0.Event", "Id": id, "Name": "Event", "Context": s.context, "Events": []any{record},
		}
		text := encode(event)
		m.fleet.work.Go(func() { m.fleet.deliver(s.destination, text) })
	}
}

// deliver takes an event to a subscriber, once. Like everything of the lab it
// stays on the loopback network; what goes elsewhere is lost.
func (f *Fleet) deliver(to string, event []byte) {
	u, err := url.Parse(to)
	if err != nil || !loopback(u.Hostname()) {
		return
	}
	ctx, cancel := context.WithTimeout(f.ctx, deliveryTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(event))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext}}
	if resp, err := client.Do(req); err == nil {
		resp.Body.Close()
	}
}

// eventOf is the event that an entry of the log is.
func (m *Machine) eventOf(e logged) body {
	at := m.kind.parts.logs[0].path
	return body{
		"MessageId": m.kind.speech.base + ".Success", "Message": e.text, "MessageSeverity": e.severity,
		"OriginOfCondition": ref(fmt.Sprintf("%s/Entries/%d", at, e.n)),
	}
}

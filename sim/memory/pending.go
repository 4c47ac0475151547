package memory

import (
	"strconv"
	"strings"

	"flunq.io/flunq/sim/resp"
)

// findGroup returns the stream and group that a command names.
func findGroup(db *Database, key, name string) (*stream, *group) {
	st := find[stream](db, key)
	g := st.group(name)
	if g == nil {
		refuse("NOGROUP No such key '" + key + "' or consumer group '" + name + "'")
	}
	return st, g
}

// xpending implements XPENDING.
func xpending(db *Database, args []string) resp.Reply {
	if len(args) == 3 {
		_, g := findGroup(db, args[1], args[2])
		return g.summary()
	}
	idle, rest := int64(0), args[3:]
	if strings.EqualFold(rest[0], "idle") && len(rest) > 1 {
		idle, rest = number(rest[1]), rest[2:]
	}
	if len(rest) < 3 || len(rest) > 4 {
		return resp.Fail(syntax)
	}
	count := number(rest[2])
	from, to := parseStreamRange(rest[0], rest[1])
	_, g := findGroup(db, args[1], args[2])
	found := g.pending[g.search(from):]
	out := []resp.Reply{}
	for _, p := range found {
		if int64(len(out)) >= count || to.less(p.streamID) {
			break
		}
		if db.ms-p.deliveredAt < idle || len(rest) == 4 && p.owner.name != rest[3] {
			continue
		}
		out = append(out, resp.List(resp.Text(p.id), resp.Text(p.owner.name), resp.Int(int(max(db.ms-p.deliveredAt, 0))), counted(p.deliveries)))
	}
	return resp.List(out...)
}

// summary implements XPENDING without a range.
func (g *group) summary() resp.Reply {
	if len(g.pending) == 0 {
		return resp.List(resp.Int(0), resp.Reply{}, resp.Reply{}, resp.Reply{Kind: resp.NilArray})
	}
	var owners []resp.Reply
	for _, c := range g.consumers {
		if c.count > 0 {
			owners = append(owners, resp.Strings([]string{c.name, strconv.Itoa(c.count)}))
		}
	}
	return resp.List(resp.Int(len(g.pending)), resp.Text(g.pending[0].id), resp.Text(g.pending[len(g.pending)-1].id), resp.List(owners...))
}

// claimOptions holds the arguments of XCLAIM other than the consumer.
type claimOptions struct {
	minIdle     int64 // in milliseconds
	ids         []streamID
	deliveredAt int64 // IDLE, as the time when the entries count as delivered
	force       bool
	justID      bool
}

// xclaim implements XCLAIM.
func xclaim(db *Database, args []string) resp.Reply {
	st, g := findGroup(db, args[1], args[2])
	c := parseClaimOptions(db, args[4:])
	var owner *consumer
	out := []resp.Reply{}
	for _, id := range c.ids {
		e, at := st.entry(id), g.search(id)
		there := at < len(g.pending) && g.pending[at].streamID == id
		switch {
		case e == nil && there:
			g.removePending(at)
			continue
		case e == nil || !there && !c.force:
			continue
		case there && db.ms-g.pending[at].deliveredAt < c.minIdle:
			continue
		}
		if owner == nil {
			owner = g.ensureConsumer(args[3], db.ms)
		}
		p := g.find(id)
		if p == nil {
			p = g.addPending(pending{id, e.id, owner, db.ms, 1})
		}
		db.claimed(g, p, owner)
		p.claim(c, owner)
		if c.justID {
			out = append(out, resp.Text(p.id))
			continue
		}
		out = append(out, e.reply())
	}
	return resp.List(out...)
}

// claim gives a pending entry to its new owner.
func (p *pending) claim(c claimOptions, owner *consumer) {
	p.setOwner(owner)
	p.deliveredAt = c.deliveredAt
	if !c.justID {
		p.deliveries++
	}
}

// parseClaimOptions parses the arguments of XCLAIM from the idle time on.
func parseClaimOptions(db *Database, args []string) (c claimOptions) {
	c.deliveredAt = db.ms
	var ok bool
	if c.minIdle, ok = integer(args[0]); !ok {
		refuse("ERR Invalid min-idle-time argument for XCLAIM")
	}
	args = args[1:]
	for len(args) > 0 && args[0] != "" && args[0][0] <= '9' { // otherwise it is an option
		id, ok := parseStreamID(args[0], 0)
		if !ok {
			break
		}
		c.ids, args = append(c.ids, id), args[1:]
	}
	if len(c.ids) == 0 {
		refuse(noStreamID)
	}
	for ; len(args) > 0; args = args[1:] {
		switch word := strings.ToLower(args[0]); {
		case word == "force":
			c.force = true
		case word == "justid":
			c.justID = true
		case word == "idle" && len(args) > 1:
			n, ok := integer(args[1])
			if !ok {
				refuse("ERR Invalid IDLE option argument for XCLAIM")
			}
			if c.deliveredAt, args = db.ms-n, args[1:]; c.deliveredAt < 0 || c.deliveredAt > db.ms {
				c.deliveredAt = db.ms
			}
		default:
			refuse("ERR Unrecognized XCLAIM option '" + args[0] + "'")
		}
	}
	return c
}

// attemptsPerEntry is how many entries Redis examines for each one that it may claim.
const attemptsPerEntry = 10

// xautoClaim implements XAUTOCLAIM.
func xautoClaim(db *Database, args []string) resp.Reply {
	idle, ok := integer(args[4])
	if !ok {
		return resp.Fail("ERR Invalid min-idle-time argument for XAUTOCLAIM")
	}
	from, count := parseStreamBound(args[5], 0), int64(100)
	if rest := args[6:]; len(rest) == 2 && strings.EqualFold(rest[0], "count") {
		if count, ok = integer(rest[1]); !ok || count < 1 {
			return resp.Fail("ERR COUNT must be > 0")
		}
	} else if len(rest) > 0 {
		return resp.Fail(syntax)
	}
	st, g := findGroup(db, args[1], args[2])
	claimed, gone := []resp.Reply{}, []string{}
	at := g.search(from)
	var owner *consumer
	for left := count * attemptsPerEntry; left > 0 && count > 0 && at < len(g.pending); left-- {
		p := g.pending[at]
		e := st.entry(p.streamID)
		if e == nil {
			gone = append(gone, p.id)
			g.removePending(at)
			count--
			continue
		}
		at++
		if db.ms-p.deliveredAt < idle {
			continue
		}
		if owner == nil {
			owner = g.ensureConsumer(args[3], db.ms)
		}
		db.claimed(g, p, owner)
		p.claim(claimOptions{deliveredAt: db.ms}, owner)
		count--
		claimed = append(claimed, e.reply())
	}
	next := "0-0"
	if at < len(g.pending) {
		next = g.pending[at].id
	}
	return resp.List(resp.Text(next), resp.List(claimed...), resp.Strings(gone))
}

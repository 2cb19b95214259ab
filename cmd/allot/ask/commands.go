package ask

import (
	"net/url"

	"github.com/allot-project/allot/cmd/internal/cli"
)

// Commands are the questions, and the changes that belong to them, as kong reads them. The tag
// "query" names the parameter of the REST API; "of" is the kind of entity whose name is taken, too.
type Commands struct {
	Status      struct{ Question } `cmd:"" group:"Look at what is:" help:"Print what a server says of itself: its role, whether it takes reads and commands, its log and disk."`
	Get         getCommands        `cmd:"" group:"Look at what is:" help:"Print a provider, consumer, project, bare metal node or allocation."`
	List        listCommands       `cmd:"" group:"Look at what is:" help:"List providers, consumers, classes, traits, bare metal nodes or allocations."`
	Search      search             `cmd:"" group:"Look at what is:" help:"Find what exists, and actors, by a part of a name or the beginning of a uuid."`
	Holders     holdersOf          `cmd:"" group:"Look at what is:" help:"Print the consumers that hold, or held, something of a provider and all that is nested in it, with their owners."`
	WhyNot      whyNot             `cmd:"" group:"Look at what is:" name:"why-not" help:"Explain why a request has no allocation candidates."`
	Capacity    capacity           `cmd:"" group:"Look at what is:" help:"Count how many more allocations fit that satisfy a request, by tree."`
	WhatIf      whatIf             `cmd:"" group:"Look at what is:" name:"what-if" help:"Show the outcome of some commands, without recording them."`
	Orphans     orphans            `cmd:"" group:"Look at what is:" help:"List allocations without an owner, and owners without allocations."`
	Series      series             `cmd:"" group:"Look at what was:" help:"Print the usage of a provider or project over time."`
	Consumption consumption        `cmd:"" group:"Look at what was:" help:"Print how much was held, or used of a provider, for how long: for bills."`
	Log         records            `cmd:"" group:"Look at what was:" help:"Print the records of a ledger."`
	History     history            `cmd:"" group:"Look at what was:" help:"Print the history of a consumer, provider, project or user, or the effects of a command."`
	Timeline    timeline           `cmd:"" group:"Look at what was:" help:"Print what was done, newest first: by an actor, to a provider, in a project."`
	Why         why                `cmd:"" group:"Look at what was:" help:"Print the records that explain what a consumer holds of a provider."`
	Rejected    rejected           `cmd:"" group:"Look at what was:" help:"Print rejected commands, with the reasons."`
	Limits      limitsCommands     `cmd:"" group:"Set rules:" help:"Show and set how much projects may hold."`

	Counters    countersCommands    `cmd:"" group:"Set rules:" help:"Show and set counters of a provider, and what the providers below draw from them."`
	Preferences preferencesCommands `cmd:"" group:"Set rules:" help:"Show and set preferences that claims refer to by name."`
	Topologies  topologiesCommands  `cmd:"" group:"Set rules:" help:"Show and set which aggregates are domains, and which of them are in which."`
}

// Moment is the moment that a question is about; default: now.
type Moment struct {
	At cli.Moment `help:"As of this sequence or RFC 3339 time." query:"at" placeholder:"MOMENT"`
}

// In adds the moment to the parameters of a request.
func (m Moment) In(query url.Values) url.Values {
	if m.At != "" {
		query.Set("at", string(m.At))
	}
	return query
}

type then struct {
	Question
	Moment
}

type getCommands struct {
	Provider struct {
		then
		Name string `arg:"" help:"Its uuid or name." query:"name" of:"provider"`
	} `cmd:"" help:"Print a provider, its inventories and their usage."`
	Consumer struct {
		then
		Name string `arg:"" help:"Its uuid, or the beginning of it." query:"name" of:"consumer"`
	} `cmd:"" help:"Print what a consumer holds, and its owner."`
	Project struct {
		then
		Name string `arg:"" help:"Its id or name." query:"project_id" of:"project"`
	} `cmd:"" help:"Print what a project uses, by type of consumer."`
	Node struct {
		then
		Name string `arg:"" help:"Its uuid or name." query:"name" of:"node"`
	} `cmd:"" help:"Print a bare metal node."`
	Allocation struct {
		then
		Name string `arg:"" help:"Its uuid or name." query:"name" of:"node_allocation"`
	} `cmd:"" help:"Print an allocation of a bare metal node."`
}

type listCommands struct {
	Providers then `cmd:"" help:"List providers, with what is used of them."`
	Consumers struct {
		then
		Project string `help:"Only those of this project." query:"project" placeholder:"ID"`
		User    string `help:"Only those of this user." query:"user" placeholder:"ID"`
		Type    string `help:"Only those of this type." query:"type" placeholder:"TYPE"`
	} `cmd:"" help:"List consumers, with what they hold."`
	Classes     then `cmd:"" help:"List resource classes."`
	Traits      then `cmd:"" help:"List traits."`
	Nodes       then `cmd:"" help:"List bare metal nodes."`
	Allocations then `cmd:"" help:"List allocations of bare metal nodes."`
}

type search struct {
	then
	Text  string `arg:"" help:"A part of the name, or the beginning of the uuid." query:"q"`
	Limit int    `help:"Print at most this many, 1 to 200." default:"20" least:"1" query:"limit"`
}

type holdersOf struct {
	then
	Provider string `arg:"" help:"Uuid or name of a provider or bare metal node." query:"provider" of:"provider"`
	Tree     bool   `help:"Also of all providers that are nested in it; --no-tree: of itself alone." default:"true" negatable:"" query:"tree"`
}

type series struct {
	Question
	Of     string     `arg:"" enum:"provider,project" help:"provider or project." query:"of"`
	Name   string     `arg:"" help:"Uuid or name of the provider, or id of the project." query:"name"`
	Since  cli.Moment `help:"From this RFC 3339 time on; default: a day before the end." query:"since"`
	Until  cli.Moment `help:"Up to this RFC 3339 time; default: now." query:"until"`
	Points int        `help:"Number of moments, 2 to 500." default:"24" least:"2" query:"points"`
}

type consumption struct {
	Question
	From     cli.Moment `help:"From this sequence or RFC 3339 time on." required:"" placeholder:"MOMENT" query:"from"`
	To       cli.Moment `help:"Up to this sequence or RFC 3339 time; default: now." placeholder:"MOMENT" query:"to"`
	By       string     `help:"Keys of the rows: project, user, type, class, and hour, day or month; of providers: provider, class and these." default:"class" placeholder:"KEY,KEY" query:"by"`
	Project  string     `help:"Only of this project." placeholder:"ID" query:"project"`
	User     string     `help:"Only of this user." placeholder:"ID" query:"user"`
	Type     string     `help:"Only of this type of consumer; NODE: whole nodes." placeholder:"TYPE" query:"type"`
	Class    string     `help:"Only of this resource class." placeholder:"CLASS" query:"class"`
	Provider string     `help:"What was used of this provider, and what there was." placeholder:"PROVIDER" query:"provider"`
	Tree     bool       `help:"Of the provider's whole tree." query:"tree"`
	Strict   bool       `help:"Fail if there never was such a project, provider or class." query:"strict"`
	Focus    bool       `help:"Print charges as CSV in the form of FinOps FOCUS 1.2, by month, or by the hour or day of --by."`
	Prices   string     `help:"Prices for the charges: CSV with class,price,currency, or YAML with a list of these; the price is that of a unit for an hour." type:"existingfile" placeholder:"FILE"`
	Issuer   string     `help:"Name of the provider in the charges." default:"Allot" placeholder:"NAME"`
}

type records struct {
	then
	From   uint64 `help:"First sequence." default:"1" query:"from" least:"0"`
	Follow bool   `short:"f" help:"Go on and print new records as they come." query:"follow"`
}

type history struct {
	then
	Of    string     `arg:"" enum:"consumer,provider,project,user,node,node_allocation,chassis,command" help:"Kind of entity: consumer, provider, project, user, node, node_allocation, chassis or command." query:"of"`
	Name  string     `arg:"" help:"Uuid or name of the entity." query:"name"`
	Limit int        `help:"Print at most this many entries; 0: all." default:"50" query:"limit"`
	Since cli.Moment `help:"Only records at or after this RFC 3339 time." query:"since"`
	Until cli.Moment `help:"Only records at or before this RFC 3339 time." query:"until"`
	Kind  string     `help:"Only records of this command, such as Reshape." query:"kind"`
}

type timeline struct {
	then
	Actor          string     `help:"Only what this actor did." query:"actor"`
	Command        string     `help:"Only records of this command, such as Reshape." query:"command"`
	Consumer       string     `help:"Only records that touched this consumer." query:"consumer" of:"consumer"`
	Provider       string     `help:"Only records that touched this provider." query:"provider" of:"provider"`
	Project        string     `help:"Only records that touched this project." query:"project" placeholder:"ID"`
	User           string     `help:"Only records that touched this user." query:"user" placeholder:"ID"`
	Node           string     `help:"Only records that touched this bare metal node." query:"node" of:"node"`
	NodeAllocation string     `help:"Only records that touched this allocation of a bare metal node." query:"node_allocation" of:"node_allocation"`
	Limit          int        `help:"Print at most this many records, newest first; 0: all." default:"50" query:"limit"`
	Since          cli.Moment `help:"Only records at or after this RFC 3339 time." query:"since"`
	Until          cli.Moment `help:"Only records at or before this RFC 3339 time." query:"until"`
}

type why struct {
	then
	Of       string `arg:"" enum:"consumer" help:"The word consumer."`
	Consumer string `arg:"" help:"Its uuid." query:"consumer"`
	On       string `arg:"" enum:"provider" help:"The word provider."`
	Provider string `arg:"" help:"Its uuid or name." query:"provider" of:"provider"`
}

type whyNot struct {
	then
	Candidates string `help:"Query of Placement's GET /allocation_candidates, such as 'resources=VCPU:1&required=CUSTOM_GOLD'." required:"" placeholder:"QUERY"`
}

type capacity struct {
	then
	Request string `arg:"" help:"Query of Placement's GET /allocation_candidates, such as 'resources=VCPU:4&required=CUSTOM_GOLD'."`
	Limit   int    `help:"Stop counting at this number; 0: do not stop." default:"0" query:"limit"`
	Domains string `help:"Count by the domains of this topology, in place of trees." placeholder:"TOPOLOGY" query:"topology"`
}

type rejected struct {
	Question
	Limit    int        `help:"Print at most this many, newest first; 1 to 1000." default:"50" least:"1" query:"limit"`
	Actor    string     `help:"Only commands of this actor." query:"actor"`
	Command  string     `help:"Only this command, such as Reshape." query:"command"`
	Code     string     `help:"Only commands rejected with this code, such as capacity_exceeded." query:"code"`
	Project  string     `help:"Only commands about this project: from a client that is bound to it, naming it as an owner, or changing what its consumers hold." query:"project"`
	Consumer string     `help:"Only commands that name this consumer or node allocation." query:"consumer"`
	Provider string     `help:"Only commands that name this provider or node." query:"provider"`
	Since    cli.Moment `help:"Only commands at or after this RFC 3339 time." query:"since"`
	Until    cli.Moment `help:"Only commands at or before this RFC 3339 time." query:"until"`
}

type whatIf struct {
	then
	File      string   `arg:"" optional:"" help:"JSON: {\"steps\": [{\"command\": NAME, \"body\": {...}}], \"questions\": [{\"query\": NAME, \"body\": {...}}]}; -: standard input."`
	Without   []string `help:"Providers to remove, with their descendants." placeholder:"PROVIDER"`
	Resources []string `help:"Ask for candidates for these amounts, and how often they fit." placeholder:"CLASS=AMOUNT"`
	Project   []string `help:"Ask for the usages of these projects." placeholder:"ID"`
}

type limited struct {
	Project   string `help:"Id of the project; without it the limit is the default of every project." placeholder:"ID" query:"project_id" of:"project"`
	Aggregate string `help:"Aggregate on whose providers all consumers together are limited, or its name in a topology." placeholder:"UUID" query:"aggregate" of:"aggregate"`
	Class     string `help:"Resource class that is limited." xor:"limited" required:"" placeholder:"CLASS" query:"resource_class"`
	Type      string `help:"Type of consumers whose number is limited." xor:"limited" required:"" placeholder:"TYPE" query:"consumer_type"`
}

type limitsSet struct {
	Question
	limited
	Most *int64 `help:"How much there may be." xor:"most" required:"" placeholder:"N"`
	None bool   `help:"Remove the limit." xor:"most" required:""`
}

type limitsCommands struct {
	List then `cmd:"" help:"Print the limits as they are set, with what is used of them."`
	Show struct {
		then
		Project string `arg:"" help:"Id or name of the project." query:"project_id" of:"project"`
	} `cmd:"" help:"Print the limits that hold for a project, its own or defaults, and those of the projects above it, with what is used of them."`
	Set     limitsSet `cmd:"" help:"Set a limit, or remove it."`
	History struct {
		then
		limited
	} `cmd:"" help:"Print what a limit was, the newest first, with the commits that set it."`
	Tree struct {
		Question
		Project string `arg:"" help:"Id or name of the project." query:"project" of:"project"`
		Below   string `help:"Id or name of the project that it is below; without it, none." placeholder:"ID" query:"below" of:"project"`
	} `cmd:"" help:"Put a project below another one, whose limits then hold for both together."`
}

type preferencesCommands struct {
	List then `cmd:"" help:"Print the preferences that have names."`
	Show struct {
		then
		Name string `arg:"" help:"Name of the preference." query:"name"`
	} `cmd:"" help:"Print a preference, and what it was before."`
	Set struct {
		Question
		Name   string `arg:"" help:"Name of the preference." query:"name"`
		Prefer string `arg:"" help:"What is preferred, as JSON." placeholder:"JSON" query:"prefer"`
	} `cmd:"" help:"Give a preference a name, or change what one says."`
	Remove struct {
		Question
		Name string `arg:"" help:"Name of the preference." query:"name"`
	} `cmd:"" help:"Remove a preference."`
}

type countersCommands struct {
	Show struct {
		then
		Name string `arg:"" help:"Uuid or name of the provider." query:"name" of:"provider"`
	} `cmd:"" help:"Print the counters of a provider, what is left of each, and what its classes draw from those above."`
	Set struct {
		Question
		Name string `arg:"" help:"Uuid or name of the provider." query:"name" of:"provider"`
		As   string `arg:"" help:"All counters and draws, as JSON." placeholder:"JSON" query:"as"`
	} `cmd:"" help:"Set all counters of a provider, and what its classes draw from those above."`
}

type topologiesCommands struct {
	List then `cmd:"" help:"Print the topologies."`
	Show struct {
		then
		Name string `arg:"" help:"Name of the topology." query:"name"`
	} `cmd:"" help:"Print a topology."`
	Set struct {
		Question
		Name string `arg:"" help:"Name of the topology." query:"name"`
		File string `arg:"" help:"JSON: {\"levels\": [LEVEL, ...], \"members\": {AGGREGATE: {\"level\": LEVEL, \"name\": NAME, \"parent\": AGGREGATE}}}; -: standard input." query:"file"`
	} `cmd:"" help:"Declare a topology, in the place of what it was."`
	Remove struct {
		Question
		Name string `arg:"" help:"Name of the topology." query:"name"`
	} `cmd:"" help:"Remove a topology."`
}

// Cluster are the questions about several servers of one ledger.
type Cluster struct {
	Status   struct{ Question } `cmd:"" help:"Print the servers of a cluster, the leader, and how far each server is behind."`
	StepDown struct {
		Question
		To string `help:"Name of the server to lead; default: the server that lags least." placeholder:"NAME" query:"to"`
	} `cmd:"" name:"step-down" help:"Make another server lead; requests wait meanwhile."`
	Remove struct {
		Question
		Name string `arg:"" help:"Name of the server." query:"name"`
	} `cmd:"" help:"Forget a server that will not come back."`
}

/* P4_16 core library: what the language specification asks of every target (section "P4 core library").
   The order of the members of error is part of the contract with BMv2: it numbers them. */

#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,               // parsing went well
    PacketTooShort,        // extract or lookahead ran past the end of the packet
    NoMatch,               // no case of a select matched
    StackOutOfBounds,      // next or last outside a header stack
    HeaderTooShort,        // a varbit got more bits than it can hold
    ParserTimeout,         // the parser took too long
    ParserInvalidArgument  // an operation of packet_in was given an argument it does not accept
}

/* The packet while it is parsed. */
extern packet_in {
    /* Reads a header of fixed size, makes it valid and moves on. With `_` as T's value the bits are skipped. */
    void extract<T>(out T hdr);
    /* The same for a header with one varbit field, which gets the given number of bits. */
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    /* Reads without moving on. */
    T lookahead<T>();
    /* Moves on by a number of bits. */
    void advance(in bit<32> sizeInBits);
    /* The packet's length in bytes; not offered by every target. */
    bit<32> length();
}

/* The packet while it is put together again. */
extern packet_out {
    /* Appends a header if it is valid; a stack, union or struct member by member. */
    void emit<T>(in T hdr);
}

/* In a parser: goes to reject with the given error unless check holds. */
extern void verify(in bool check, in error toSignal);

/* Does nothing. The default action of a table that names no other. */
@noWarn("unused")
action NoAction() {}

match_kind {
    exact,    // all bits equal
    ternary,  // equal under a mask
    lpm       // longest prefix wins
}

/* Checked while compiling; the program is wrong if it is false. */
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif

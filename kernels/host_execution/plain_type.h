// A type without pointers, references and const, as templates deduce it.

template <typename HostType>
struct HostPlain {
    typedef HostType type;
};
template <typename HostType>
struct HostPlain<HostType *> : HostPlain<HostType> {};
template <typename HostType>
struct HostPlain<HostType &> : HostPlain<HostType> {};
template <typename HostType>
struct HostPlain<const HostType> : HostPlain<HostType> {};
